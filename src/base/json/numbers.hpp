// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

#include <distdl/base/errors.hpp>

// Reads numbers from untrusted JSON. The JSON library's own conversions wrap around and truncate silently.
namespace distdl {

/// Returns nothing unless the value is a whole number in the range of `Number`.
template <class Number>
std::optional<Number> as_whole(const nlohmann::json& value) {
  if (value.is_number_unsigned() && std::in_range<Number>(value.get<std::uint64_t>()))
    return static_cast<Number>(value.get<std::uint64_t>());
  if (value.is_number_integer() && !value.is_number_unsigned() && std::in_range<Number>(value.get<std::int64_t>()))
    return static_cast<Number>(value.get<std::int64_t>());
  return std::nullopt;
}

/// Throws StorageError (corrupt) unless the value is a whole number in the range of `Number`.
template <class Number>
Number whole(const nlohmann::json& value) {
  if (const auto number = as_whole<Number>(value)) return *number;
  throw StorageError(fmt::format("a whole number was expected, not {}",
                                 value.is_number() ? value.dump() : fmt::format("a {}", value.type_name())),
                     ExitCode::corrupt);
}

/// Returns 0 if the object does not have the key.
template <class Number>
Number whole_in(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() ? Number{0} : whole<Number>(*found);
}

}  // namespace distdl
