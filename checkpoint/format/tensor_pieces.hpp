// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include <distdl/checkpoint/format/tensor_reader.hpp>

namespace distdl::checkpoint {

/// Visits a tensor's bytes in row-major order, in pieces of some mebibytes that contain whole elements. The visitor may
/// change the bytes.
void for_each_piece(TensorReader& reader, const TensorEntry& entry,
                    const std::function<void(std::span<std::byte>)>& visit);

}  // namespace distdl::checkpoint
