// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <distdl/checkpoint/format/hdf5_handles.hpp>
#include <distdl/tensor/shape.hpp>

namespace distdl::checkpoint::hdf5 {

/// How elements lie in a file: little-endian; bf16 is a float of two bytes.
Type element_type(tensor::DType dtype);
/// A scalar for the empty shape.
Space space_of(const tensor::Shape& shape);

}  // namespace distdl::checkpoint::hdf5
