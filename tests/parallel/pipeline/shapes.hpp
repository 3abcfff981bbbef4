// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <distdl/parallel/pipeline/schedule.hpp>

namespace distdl::parallel::pipeline {

/// Calls `test` for each algorithm with 1 to 8 ranks, 1 to 16 microbatches and 1 to 3 stages per rank.
template <class Test>
void for_each_shape(Test&& test) {
  for (const auto& row : kAlgorithms)
    for (int ranks = 1; ranks <= 8; ++ranks)
      for (int microbatches = 1; microbatches <= 16; ++microbatches)
        for (int stages = 1; stages <= (row.value == Algorithm::interleaved ? 3 : 1); ++stages)
          test(row.value, Shape{ranks, microbatches, stages});
}

inline std::string text_of(Algorithm algorithm, const Shape& shape) {
  return fmt::format("{}, {} ranks, {} microbatches, {} stages each", OneOf(algorithm), shape.ranks, shape.microbatches,
                     shape.interleave);
}

}  // namespace distdl::parallel::pipeline
