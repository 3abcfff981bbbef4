// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include <distdl/base/one_of.hpp>

namespace distdl::parallel {

/// With local SGD: use of the average of the groups' parameters at the end of a round.
enum class Outer {
  mean,     ///< all groups go on with it (Stich, "Local SGD Converges Fast and Communicates Little", ICLR 2019)
  nesterov  ///< an outer step goes towards it (Douillard et al., "DiLoCo", 2023)
};
constexpr std::array<Named<Outer>, 2> choices_of(Outer /*which*/) {
  return {{
      {Outer::mean, "mean", "all groups go on with it"},
      {Outer::nesterov, "nesterov", "the parameters of the round before take a step towards it, with momentum: DiLoCo"},
  }};
}

struct LocalSgdOptions {
  std::int64_t groups = 4;  ///< parts of the microbatches of a step, which each train parameters of their own
  std::int64_t steps = 16;  ///< length of a round, at the end of which these are averaged
  OneOf<Outer> outer = Outer::mean;
  double outer_learning_rate = 0.7;  ///< with outer = nesterov: the part of the way to the average
  double outer_momentum = 0.9;       ///< with outer = nesterov
};

/// The keys of local SGD.
template <class Visitor>
void describe(LocalSgdOptions& options, Visitor&& visit) {
  visit(
      "parallel.groups", options.groups,
      "with parallel.strategy = \"local_sgd\": groups of parallel.microbatches / parallel.groups microbatches, each of "
      "which trains parameters of its own; the result depends on this number, not on the ranks");
  visit("parallel.local_steps", options.steps,
        "with parallel.strategy = \"local_sgd\": the parameters of the groups are averaged after so many steps; the "
        "result depends on it");
  visit("parallel.outer", options.outer,
        OneOf<Outer>::help("with parallel.strategy = \"local_sgd\": what becomes of the average; the result depends on "
                           "it"));
  visit("parallel.outer_learning_rate", options.outer_learning_rate,
        "with parallel.outer = \"nesterov\": the factor of the outer step, above 0 and up to 2; the result depends on "
        "it");
  visit("parallel.outer_momentum", options.outer_momentum,
        "with parallel.outer = \"nesterov\": momentum of the outer step, from 0 to below 1; the result depends on it");
}

}  // namespace distdl::parallel
