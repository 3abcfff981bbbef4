// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include <distdl/optim/arena_ranges.hpp>
#include <distdl/optim/options.hpp>
#include <distdl/tensor/arena.hpp>
#include <distdl/train/balance/move_rule.hpp>

namespace distdl::train {

/// Times per step that one rank has measured for the servers since the last exchange.
struct AnswerSeconds {
  double step = 0;             ///< the whole step; below 0: the rank was suspended, and the exchange counts for nothing
  std::vector<double> ranges;  ///< how long its worker waited for each range's server; 0: it asked none
};

/// Seconds of an element at each server, per step: the median over the workers, because a slow worker finds all servers
/// slow. 0: unknown.
std::vector<double> element_seconds(const std::vector<optim::Elements>& ranges,
                                    std::span<const AnswerSeconds> of_ranks);

/// The rule by which parameters move away from slow servers: with the caution of MoveRule to the division of
/// parallel::server::ranges_for(). All ranks give it the same times, so all ranks take the same decision.
class RangeBalance {
 public:
  /// Begins with equal ranges.
  RangeBalance(optim::Options options, const tensor::ArenaLayout& layout, int servers);

  /// The ranges of the servers, in the order of the servers.
  const std::vector<optim::Elements>& ranges() const { return ranges_; }
  /// `of_ranks`: one per rank. True if ranges() has changed. A server without a time makes this exchange count for
  /// nothing.
  bool take(std::span<const AnswerSeconds> of_ranks);

  /// See MoveRule.
  std::int64_t steps_until_next() const { return rule_.steps_until_next(); }
  /// The medians, per server; empty until they are known.
  const std::vector<double>& seconds() const { return rule_.medians().unit_seconds; }
  const std::string& went_back() const { return rule_.went_back(); }

 private:
  MoveRule::Next look(std::span<const AnswerSeconds> of_ranks);
  /// True if other ranges are in use from now on.
  bool find_better();

  optim::Options options_;
  const tensor::ArenaLayout& layout_;
  std::vector<optim::Elements> ranges_, before_;
  MoveRule rule_;
};

}  // namespace distdl::train
