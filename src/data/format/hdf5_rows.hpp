// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <distdl/hdf5/objects/hdf5_handles.hpp>
#include <distdl/tensor/shape.hpp>

namespace distdl::data {

/// How a data set stores numbers in its file. Not a tensor::DataType: a tensor never has 16- or 32-bit unsigned
/// integers, and a reader turns what is stored into float32 or int32.
enum class StoredNumber { u8, u16, i32, u32, f32 };
std::size_t size_of(StoredNumber type);

/// Rows are the elements along the first extent. Chunks have `rows_per_chunk` of them and are contiguous in the file; 0
/// means not chunked.
hdf5::Dataset create_dataset(const hdf5::File& file, const char* name, StoredNumber type, const tensor::Shape& shape,
                             std::int64_t rows_per_chunk);
/// Also throws if the dataset has another type or shape, is in another file, needs a filter, or claims more bytes than
/// the file has.
hdf5::Dataset open_dataset(const hdf5::File& file, const char* name, StoredNumber type, const tensor::Shape& shape);
/// Returns 0 if the dataset is not chunked. Throws if chunks are not whole rows.
std::int64_t rows_per_chunk(const hdf5::Dataset& dataset);
void write_rows(const hdf5::Dataset& dataset, StoredNumber type, std::int64_t first, std::int64_t rows,
                const void* data);
void read_rows(const hdf5::Dataset& dataset, StoredNumber type, std::int64_t first, std::int64_t rows, void* data);

}  // namespace distdl::data
