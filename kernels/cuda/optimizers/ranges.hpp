// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <distdl/kernels/backend.hpp>
#include <distdl/kernels/cuda/primitives/reduction.hpp>

namespace distdl::kernels::cuda {

inline constexpr auto kPart = static_cast<std::int64_t>(elementwise::kPart);

/// A range, and the index of its partial sums among those of all ranges.
struct RangeParts {
  std::int64_t offset, count, first_part;
  GroupOptions options;
  DISTDL_HOST_DEVICE std::int64_t parts() const { return (count + kPart - 1) / kPart; }
};

inline std::vector<RangeParts> parts_of(ArenaRanges ranges) {
  std::vector<RangeParts> all;
  std::int64_t part = 0;
  for (const auto& [offset, count, options] : ranges) {
    all.push_back({static_cast<std::int64_t>(offset), static_cast<std::int64_t>(count), part, options});
    part += all.back().parts();
  }
  return all;
}

/// ArenaRanges in the form that kernels read.
struct RangeTable {
  const RangeParts* ranges;
  std::int64_t count;
  std::int64_t parts;       ///< parts of all ranges
  std::int64_t most_parts;  ///< most parts of one range

  /// The last range that begins at or before the part. Empty ranges before it may begin there too.
  DISTDL_HOST_DEVICE std::int64_t range_of(std::int64_t part) const {
    std::int64_t low = 0, high = count;
    while (high - low > 1) {
      const std::int64_t middle = (low + high) / 2;
      (ranges[middle].first_part <= part ? low : high) = middle;
    }
    return low;
  }
};

inline RangeTable table_of(const std::vector<RangeParts>& all, const RangeParts* place) {
  RangeTable table{place, std::ssize(all), 0, 0};
  for (const RangeParts& range : all) {
    table.parts += range.parts();
    table.most_parts = std::max(table.most_parts, range.parts());
  }
  return table;
}

// Two sums, see reduction.hpp. Together they give the sum of ordered_sum.hpp for each range, with the same bits, in two
// launches for all ranges. term(options, i) is the term of element i of the arenas in a range with these group options.

/// A result is the sum of one part of a range.
template <class Term>
struct SumOfPart {
  Term term;
  RangeTable table;
  double* parts;
  DISTDL_HOST_DEVICE double operator()(std::int64_t part, std::int64_t j) const {
    const RangeParts& range = table.ranges[table.range_of(part)];
    const std::int64_t i = (part - range.first_part) * kPart + j;
    return i < range.count ? term(range.options, static_cast<std::size_t>(range.offset + i)) : 0.0;
  }
  DISTDL_HOST_DEVICE void finish(std::int64_t part, double sum) const { parts[part] = sum; }
};

/// A result is the sum of one range, which is passed to take(number, sum). Terms: table.most_parts.
template <class Take>
struct SumOfRange {
  RangeTable table;
  const double* parts;
  Take take;
  DISTDL_HOST_DEVICE double operator()(std::int64_t number, std::int64_t j) const {
    const RangeParts& range = table.ranges[number];
    return j < range.parts() ? parts[range.first_part + j] : 0.0;
  }
  DISTDL_HOST_DEVICE void finish(std::int64_t number, double sum) const { take(number, sum); }
};

struct StoreSum {
  double* sums;
  DISTDL_HOST_DEVICE void operator()(std::int64_t number, double sum) const { sums[number] = sum; }
};

}  // namespace distdl::kernels::cuda
