// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <distdl/hdf5/hdf5_handles.hpp>
#include <distdl/tensor/shape.hpp>

namespace distdl::data {

enum class ElementType { u8, u16, i32, u32 };
std::size_t size_of(ElementType type);

/// Rows are the elements along the first extent. Chunks have `rows_per_chunk` of them and are contiguous in the file; 0
/// means not chunked.
hdf5::Dataset create_dataset(const hdf5::File& file, const char* name, ElementType type, const tensor::Shape& shape,
                             std::int64_t rows_per_chunk);
/// Also throws if the dataset has another type or shape, is in another file, needs a filter, or claims more bytes than
/// the file has.
hdf5::Dataset open_dataset(const hdf5::File& file, const char* name, ElementType type, const tensor::Shape& shape);
/// Returns 0 if the dataset is not chunked. Throws if chunks are not whole rows.
std::int64_t rows_per_chunk(const hdf5::Dataset& dataset);
void write_rows(const hdf5::Dataset& dataset, ElementType type, std::int64_t first, std::int64_t rows,
                const void* data);
void read_rows(const hdf5::Dataset& dataset, ElementType type, std::int64_t first, std::int64_t rows, void* data);

}  // namespace distdl::data
