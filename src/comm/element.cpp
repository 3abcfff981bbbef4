// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <iterator>

#include <fmt/ranges.h>

#include <distdl/base/errors.hpp>
#include <distdl/comm/element.hpp>

namespace distdl::comm {
namespace {

constexpr std::array<std::string_view, 12> kTypes{"byte",  "float32", "float64", "float16", "bfloat16",  "int32",
                                                  "int64", "int8",    "int16",   "boolean", "complex64", "complex128"};
constexpr std::array<std::string_view, 4> kReductions{"sum", "maximum", "minimum", "average"};

template <class Enum, std::size_t size>
Enum find(const std::array<std::string_view, size>& names, std::string_view name, const char* what) {
  const auto* const found = std::find(names.begin(), names.end(), name);
  require(found != names.end(), R"(unknown {} "{}": expected one of {})", what, name, fmt::join(names, ", "));
  return static_cast<Enum>(std::distance(names.begin(), found));
}

}  // namespace

std::string_view name_of(DataType type) {
  return kTypes.at(static_cast<std::size_t>(type));
}

std::string_view name_of(Reduction reduction) {
  return kReductions.at(static_cast<std::size_t>(reduction));
}

DataType data_type_of(std::string_view name) {
  return find<DataType>(kTypes, name, "data type");
}

void check_reduction(DataType type, Reduction reduction) {
  require(type != DataType::byte, "cannot reduce bytes ({}): they have no values; give the type of the elements",
          name_of(reduction));
  require(tensor::is_reducible(type), "cannot reduce {} ({}): reduce its values as those of another type",
          name_of(type), name_of(reduction));
  require(reduction != Reduction::average || is_floating(type),
          "cannot take the average of {}: it is seldom an integer; use the sum and divide it", name_of(type));
}

}  // namespace distdl::comm
