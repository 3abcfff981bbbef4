// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include <distdl/optim/arena_ranges.hpp>
#include <distdl/parallel/options.hpp>
#include <distdl/tensor/arena.hpp>

namespace distdl::forecast {

/// The values that ranks send in place of others, see parallel::CompressedSum.
struct CodedValues {
  std::size_t floats = 0;  ///< their size, as a number of floats
  double seconds = 0;      ///< time of a rank to encode and to decode them
};

/// Returns what is sent of these elements of an arena after a warm-up. With parallel.compression = "auto", the
/// elements themselves: what is chosen depends on times.
CodedValues coded_values(const parallel::Options& options, const tensor::ArenaLayout& layout,
                         const optim::Elements& elements);

}  // namespace distdl::forecast
