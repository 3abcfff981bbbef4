// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

#include <distdl/tensor/element.hpp>
#include <distdl/tensor/shape.hpp>

namespace distdl::checkpoint {

/// Whether no value is infinite or not a number. `bytes` contains whole elements. Integers are always finite. Runs at
/// the speed of memory.
bool all_finite(tensor::DataType dtype, std::span<const std::byte> bytes);

}  // namespace distdl::checkpoint
