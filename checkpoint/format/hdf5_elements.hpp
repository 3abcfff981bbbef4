// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <distdl/hdf5/objects/hdf5_handles.hpp>
#include <distdl/tensor/element.hpp>
#include <distdl/tensor/shape.hpp>

namespace distdl::checkpoint {

/// How elements lie in a file: little-endian; bf16 is a float of two bytes.
hdf5::Type element_type(tensor::DataType dtype);
/// A scalar for the empty shape.
hdf5::Space space_of(const tensor::Shape& shape);

}  // namespace distdl::checkpoint
