// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace distdl::checkpoint {

/// A value of a GGUF file's metadata. https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
using GgufValue = std::variant<std::uint32_t, float, bool, std::string, std::vector<std::string>,
                               std::vector<std::int32_t>, std::vector<float>>;
using GgufMetadata = std::vector<std::pair<std::string, GgufValue>>;

}  // namespace distdl::checkpoint
