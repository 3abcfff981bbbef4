// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include <distdl/tensor/shape.hpp>

namespace distdl::data {

/// The header of an array of NumPy, format versions 1 to 3. Source:
/// numpy.org/doc/stable/reference/generated/numpy.lib.format.html
struct NpyHeader {
  std::string type{};       ///< "<f4"; empty where it is none of numbers
  bool is_fortran = false;  ///< the first index changes fastest
  tensor::Shape shape{};
  std::size_t bytes = 0;  ///< length of the header: numbers follow
  std::string text{};     ///< the header, for messages
};

/// `ahead(bytes)`: the file from its beginning, at least so many bytes of it or all that there are. `name`: of the file
/// for messages. Nothing for other files. Throws ConfigError, and StorageError (corrupt) if it ends within the header.
std::optional<NpyHeader> read_npy_header(const std::string& name,
                                         const std::function<std::span<const std::byte>(std::size_t)>& ahead);

}  // namespace distdl::data
