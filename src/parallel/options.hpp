// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace distdl::parallel {

struct Options {
  std::int64_t microbatches = 12;     ///< number per step; the global batch is microbatches * microbatch_size
  std::int64_t microbatch_size = 16;  ///< samples per microbatch
};

template <class Visitor>
void describe(Options& options, Visitor&& visit) {
  visit(
      "parallel.microbatches", options.microbatches,
      "microbatches per step, which are divided among the ranks; the result depends on this number, not on the ranks");
  visit("parallel.microbatch_size", options.microbatch_size,
        "samples per microbatch; the global batch is microbatches * microbatch_size");
}

}  // namespace distdl::parallel
