// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include <distdl/checkpoint/format/tensor_reader.hpp>

namespace distdl::checkpoint {

/// A tensor's bytes in row-major order, in pieces of some mebibytes and of whole elements; the visitor may change them.
void for_each_piece(TensorReader& reader, const TensorEntry& entry,
                    const std::function<void(std::span<std::byte>)>& visit);

}  // namespace distdl::checkpoint
