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

/// A stretch, and where its partial sums lie among those of all.
struct StretchParts {
  std::int64_t offset, count, first_part;
  Treatment treatment;
  DISTDL_HOST_DEVICE std::int64_t parts() const { return (count + kPart - 1) / kPart; }
};

inline std::vector<StretchParts> parts_of(Stretches stretches) {
  std::vector<StretchParts> all;
  std::int64_t part = 0;
  for (const auto& [offset, count, treatment] : stretches) {
    all.push_back({static_cast<std::int64_t>(offset), static_cast<std::int64_t>(count), part, treatment});
    part += all.back().parts();
  }
  return all;
}

/// Stretches where a kernel finds them.
struct StretchTable {
  const StretchParts* stretches;
  std::int64_t count;
  std::int64_t parts;       ///< of all
  std::int64_t most_parts;  ///< of one

  /// The last one that begins at or before the part; empty ones before it begin there too.
  DISTDL_HOST_DEVICE std::int64_t stretch_of(std::int64_t part) const {
    std::int64_t low = 0, high = count;
    while (high - low > 1) {
      const std::int64_t middle = (low + high) / 2;
      (stretches[middle].first_part <= part ? low : high) = middle;
    }
    return low;
  }
};

inline StretchTable table_of(const std::vector<StretchParts>& all, const StretchParts* place) {
  StretchTable table{place, std::ssize(all), 0, 0};
  for (const StretchParts& stretch : all) {
    table.parts += stretch.parts();
    table.most_parts = std::max(table.most_parts, stretch.parts());
  }
  return table;
}

// Two sums, see reduction.hpp: together the sum of ordered_sum.hpp for each stretch, to the bit, in two launches for
// all of them. term(treatment, i): of element i of the arenas, in a stretch of that treatment.

/// A result is a part of some stretch.
template <class Term>
struct SumOfPart {
  Term term;
  StretchTable table;
  double* parts;
  DISTDL_HOST_DEVICE double operator()(std::int64_t part, std::int64_t j) const {
    const StretchParts& stretch = table.stretches[table.stretch_of(part)];
    const std::int64_t i = (part - stretch.first_part) * kPart + j;
    return i < stretch.count ? term(stretch.treatment, static_cast<std::size_t>(stretch.offset + i)) : 0.0;
  }
  DISTDL_HOST_DEVICE void finish(std::int64_t part, double sum) const { parts[part] = sum; }
};

/// A result is a stretch, handed to take(number, sum); terms: table.most_parts.
template <class Take>
struct SumOfStretch {
  StretchTable table;
  const double* parts;
  Take take;
  DISTDL_HOST_DEVICE double operator()(std::int64_t number, std::int64_t j) const {
    const StretchParts& stretch = table.stretches[number];
    return j < stretch.parts() ? parts[stretch.first_part + j] : 0.0;
  }
  DISTDL_HOST_DEVICE void finish(std::int64_t number, double sum) const { take(number, sum); }
};

struct StoreSum {
  double* sums;
  DISTDL_HOST_DEVICE void operator()(std::int64_t number, double sum) const { sums[number] = sum; }
};

}  // namespace distdl::kernels::cuda
