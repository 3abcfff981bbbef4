// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <distdl/kernels/backend.hpp>
#include <distdl/kernels/cuda/reduction.hpp>

namespace distdl::kernels::cuda {

/// A stretch, and where its partial sums lie among those of all.
struct StretchParts {
  std::int64_t offset, count, first_part;
  DISTDL_HOST_DEVICE std::int64_t parts() const {
    return (count + static_cast<std::int64_t>(elementwise::kPart) - 1) / static_cast<std::int64_t>(elementwise::kPart);
  }
};

inline std::vector<StretchParts> parts_of(std::span<const Stretch> stretches) {
  std::vector<StretchParts> all;
  std::int64_t part = 0;
  for (const auto& [offset, count] : stretches) {
    all.push_back({static_cast<std::int64_t>(offset), static_cast<std::int64_t>(count), part});
    part += all.back().parts();
  }
  return all;
}

// Two sums, see reduction.hpp: together the sum of ordered_sum.hpp for each stretch, to the bit, in two launches for
// all of them. term(i): of element i of the arenas.

/// A result is a part of some stretch.
template <class Term>
struct SumOfPart {
  Term term;
  const StretchParts* stretches;
  std::int64_t count;  ///< of stretches
  double* parts;
  DISTDL_HOST_DEVICE double operator()(std::int64_t part, std::int64_t j) const {
    const StretchParts& stretch = stretches[stretch_of(part)];
    const std::int64_t i = (part - stretch.first_part) * static_cast<std::int64_t>(elementwise::kPart) + j;
    return i < stretch.count ? term(static_cast<std::size_t>(stretch.offset + i)) : 0.0;
  }
  DISTDL_HOST_DEVICE void finish(std::int64_t part, double sum) const { parts[part] = sum; }

 private:
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

/// A result is a stretch; terms: the most parts that one has.
struct SumOfStretch {
  const StretchParts* stretches;
  const double* parts;
  double* sums;
  DISTDL_HOST_DEVICE double operator()(std::int64_t stretch, std::int64_t j) const {
    return j < stretches[stretch].parts() ? parts[stretches[stretch].first_part + j] : 0.0;
  }
  DISTDL_HOST_DEVICE void finish(std::int64_t stretch, double sum) const { sums[stretch] = sum; }
};

}  // namespace distdl::kernels::cuda
