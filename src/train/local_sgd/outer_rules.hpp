// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include <distdl/parallel/local_sgd_options.hpp>

namespace distdl::train {

/// A row of the table of outer rules: what becomes of the average at the end of a round.
struct OuterRule {
  parallel::Outer outer;
  /// Changes a tensor's parameters, which are those of the round before. `mean`: the average. `kept`: the tensor's part
  /// of the rule's arena, if it has one.
  void (*step)(const parallel::LocalSgdOptions& options, std::span<float> parameters, std::span<const float> mean,
               float* kept);
  const char* arena = nullptr;              ///< name of the arena that the rule keeps from round to round; null: none
  std::vector<std::string_view> keys = {};  ///< keys that change the result with such rules only
};

/// All rules, one for each value of parallel.outer.
std::span<const OuterRule> outer_rules();
const OuterRule& rule_of(parallel::Outer outer);

}  // namespace distdl::train
