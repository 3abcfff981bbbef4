// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <distdl/base/philox.hpp>

namespace distdl::bench {

/// Random numbers of one episode: the same seed gives the same ones.
class Draws {
 public:
  explicit Draws(std::uint64_t seed) : seed_(seed) {}
  double uniform(double low, double high) {
    if (drawn_ % 4 == 0) block_ = Philox::block(seed_, 0, drawn_ / 4);
    return low + (high - low) * static_cast<double>(Philox::uniform(block_[drawn_++ % 4]));
  }
  /// Each order of magnitude is as likely.
  double log_uniform(double low, double high);
  double normal();
  /// From 0 on, below `count`.
  int below(int count) { return static_cast<int>(uniform(0, count)); }

 private:
  std::uint64_t seed_, drawn_ = 0;
  Philox::Block block_{};
};

/// How the speeds of ranks change: not at all; one is always slow; one gets slow while another gets well; one gets
/// slower and slower; all wander (Ornstein and Uhlenbeck); other work comes to nodes and goes; one is slow in each
/// period; two ranks share less than two processors, so that one is fast while the other has nothing to do.
enum class Kind { equal, constant, change, gradual, walk, bursts, periodic, shared };
inline constexpr std::array kKinds{Kind::equal, Kind::constant, Kind::change,   Kind::gradual,
                                   Kind::walk,  Kind::bursts,   Kind::periodic, Kind::shared};
std::string name_of(Kind kind);

/// The ranks of a run, and how slow each of them is at which time. All of it is drawn from a seed.
struct World {
  World(Kind kind, std::uint64_t seed);

  int ranks, ranks_per_node, microbatches;
  double microbatch_seconds;  ///< of a rank that nothing slows down
  double other_seconds;       ///< of a step: sums, update
  double move_seconds;        ///< by which a step after a move is longer
  double noise;               ///< standard deviation of a microbatch's time, as a part of it
  double node_processors;     ///< that the ranks of a node share
  std::int64_t steps;         ///< of the episode
  /// What a microbatch takes of rank r at this time, divided by microbatch_seconds.
  double slowness(int r, double time) const;

 private:
  void slow_down(Kind kind, Draws& draws);
  void slow_at_times(Draws& draws, int r, double awaited, double lasting, double factor, bool is_regular);
  void walk(Draws& draws, int r);
  double duration() const { return grid_ * static_cast<double>(slowness_.front().size()); }

  double grid_;                                ///< seconds between two values
  std::vector<std::vector<double>> slowness_;  ///< [rank][time]
};

}  // namespace distdl::bench
