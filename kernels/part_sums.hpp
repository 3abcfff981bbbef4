// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

namespace distdl::kernels {

/// Backend::sums_of_squares() of a range is made of the sums of its parts of so many elements; the last may be shorter.
inline constexpr std::size_t kSummedPart = 16384;

/// The sum of the terms of at most one part.
double sum_of_terms(std::span<const double> terms);

/// The sum of a range from those of its parts, in the order of Backend::sums_of_squares().
double sum_of_parts(std::span<const double> parts);

}  // namespace distdl::kernels
