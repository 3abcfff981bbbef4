// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <distdl/hdf5/objects/hdf5_handles.hpp>
#include <distdl/tensor/element.hpp>
#include <distdl/tensor/shape.hpp>

namespace distdl::checkpoint {

/// The type of elements in a file. It is little-endian; bf16 is a float of two bytes.
hdf5::Type element_type(tensor::DataType dtype);
/// The dataspace of a shape. The empty shape is a scalar.
hdf5::Space space_of(const tensor::Shape& shape);

}  // namespace distdl::checkpoint
