// SPDX-License-Identifier: Apache-2.0
// The table of the kinds of data sets.
#include <algorithm>
#include <array>

#include <fmt/ranges.h>

#include <distdl/base/errors.hpp>
#include <distdl/data/arrays.hpp>
#include <distdl/data/encoded_images.hpp>
#include <distdl/data/images.hpp>
#include <distdl/data/kinds.hpp>
#include <distdl/data/tokens.hpp>

namespace distdl::data {

std::span<const Kind> kinds() {
  static const std::array all{images_kind(), encoded_images_kind(), tokens_kind(), arrays_kind()};
  return all;
}

const Kind& find_kind(std::string_view name) {
  const auto all = kinds();
  const auto found = std::ranges::find(all, name, &Kind::name);
  if (found != all.end()) return *found;
  std::vector<std::string_view> names;
  for (const Kind& kind : all) names.push_back(kind.name);
  throw ConfigError(fmt::format("\"{}\" is not a kind of data set; it must be {}", name, fmt::join(names, " or ")));
}

}  // namespace distdl::data
