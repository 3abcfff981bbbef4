// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <type_traits>

#include <hdf5.h>

#include <distdl/base/handles.hpp>
#include <distdl/tensor/shape.hpp>

/// The only file of this folder that calls HDF5. Every function takes one process-wide lock, because many builds of
/// HDF5 are not thread-safe, and turns HDF5's error stack into one message that names file and object. Functions that
/// write throw StorageError storage, functions that read throw StorageError corrupt, unless said otherwise.
namespace distdl::data {

void close_hdf5_file(hid_t id) noexcept;
void close_hdf5_dataset(hid_t id) noexcept;
using Hdf5File = UniqueHandle<hid_t, &close_hdf5_file, hid_t{-1}>;
using Hdf5Dataset = UniqueHandle<hid_t, &close_hdf5_dataset, hid_t{-1}>;
static_assert(std::is_nothrow_move_constructible_v<Hdf5File> && !std::is_copy_constructible_v<Hdf5File>);

enum class ElementType { u8, u16, i32, u32 };
std::size_t size_of(ElementType type);

/// A new file whose metadata carries HDF5's own checksums and no time stamps: the same content gives the same bytes.
Hdf5File create_hdf5_file(const std::filesystem::path& path);
/// HDF5 keeps what it has read of a file's metadata as long as a handle of this process to the same inode is open.
enum class Metadata { shared, read_anew };
/// Read-only and without file locks. Throws StorageError incomplete (no such file), incompatible (not HDF5), corrupt.
Hdf5File open_hdf5_file(const std::filesystem::path& path, Metadata metadata = Metadata::shared);
/// Writes out what HDF5 still holds. Close all datasets first.
void close_and_check(Hdf5File file);

void write_attribute(hid_t object, const char* name, std::string_view text);
void write_attribute(hid_t object, const char* name, std::int64_t number);
void write_attribute(hid_t object, const char* name, float number);
void write_attribute(hid_t object, const char* name, const tensor::Shape& shape);

bool has_attribute(hid_t object, const char* name);
std::string read_text(hid_t object, const char* name);
std::int64_t read_integer(hid_t object, const char* name);
float read_real(hid_t object, const char* name);
/// At most 8 extents.
tensor::Shape read_shape(hid_t object, const char* name);

/// Rows are the elements along the first extent. Chunks hold `rows_per_chunk` of them and lie one after the other in
/// the file; 0 means not chunked.
Hdf5Dataset create_dataset(const Hdf5File& file, const char* name, ElementType type, const tensor::Shape& shape,
                           std::int64_t rows_per_chunk);
/// Also throws if it has another type or shape, lies in another file, needs a filter, or claims more than the file has.
Hdf5Dataset open_dataset(const Hdf5File& file, const char* name, ElementType type, const tensor::Shape& shape);
/// 0: not chunked. Throws if chunks are not whole rows.
std::int64_t rows_per_chunk(const Hdf5Dataset& dataset);
void write_rows(const Hdf5Dataset& dataset, ElementType type, std::int64_t first, std::int64_t rows, const void* data);
void read_rows(const Hdf5Dataset& dataset, ElementType type, std::int64_t first, std::int64_t rows, void* data);

}  // namespace distdl::data
