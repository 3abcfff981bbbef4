// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace distdl {

inline constexpr std::size_t kFormatHead = 64;  ///< bytes at the beginning of a file that suffice for known_format()

/// Says what a file is that begins with these bytes, and what to do with it, for messages of readers that expected
/// another one: "a Git LFS pointer; fetch the file it stands for by \"git lfs pull\"". Empty if that is not known.
std::string_view known_format(std::span<const std::byte> head);

}  // namespace distdl
