// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>

#include <fmt/format.h>

namespace distdl {

/// A number with a type of its own, so that it cannot be confused with other numbers.
template <class Tag, class Value>
struct StrongId {
  Value value{};
  constexpr StrongId() = default;
  constexpr explicit StrongId(Value v) : value(v) {}
  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 takes the comparison that the compiler writes for ours
  constexpr auto operator<=>(const StrongId&) const = default;
};

using Rank = StrongId<struct RankTag, int>;                        ///< 0 .. world size - 1
using Step = StrongId<struct StepTag, std::int64_t>;               ///< optimizer steps done so far
using Generation = StrongId<struct GenerationTag, std::uint32_t>;  ///< membership number; increases with each loss

}  // namespace distdl

template <class Tag, class Value>
struct fmt::formatter<distdl::StrongId<Tag, Value>> : fmt::formatter<Value> {
  template <class Context>
  auto format(distdl::StrongId<Tag, Value> id, Context& context) const {
    return fmt::formatter<Value>::format(id.value, context);
  }
};
