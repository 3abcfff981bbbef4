// SPDX-License-Identifier: Apache-2.0
#include <cassert>

#include <distdl/kernels/elementwise/ordered_sum.hpp>
#include <distdl/kernels/part_sums.hpp>

namespace distdl::kernels {
static_assert(kSummedPart == elementwise::kPart);

double sum_of_terms(std::span<const double> terms) {
  assert(terms.size() <= kSummedPart);
  return elementwise::ordered_sum(terms.size(), [&](std::size_t i) { return terms[i]; });
}

double sum_of_parts(std::span<const double> parts) {
  std::array<double, elementwise::kLanes> lanes{};
  for (std::size_t i = 0; i < parts.size(); ++i) lanes[i % elementwise::kLanes] += parts[i];
  return elementwise::sum_of_lanes(lanes);
}

}  // namespace distdl::kernels
