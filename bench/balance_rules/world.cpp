// SPDX-License-Identifier: Apache-2.0
#include "world.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace distdl::bench {
namespace {
constexpr double kExchanges = 200;  ///< of an episode, about
constexpr double kGridPerExchange = 4;
constexpr double kLongest = 3;  ///< times the episode without anything that slows it down
}  // namespace

double Draws::log_uniform(double low, double high) {
  return low * std::pow(high / low, uniform(0, 1));
}

/// Box and Muller, 1958.
double Draws::normal() {
  const double radius = std::sqrt(-2 * std::log(1 - uniform(0, 1)));
  return radius * std::cos(2 * std::numbers::pi * uniform(0, 1));
}

std::string name_of(Kind kind) {
  static constexpr const char* kNames[] = {"equal", "constant", "change",   "gradual",
                                           "walk",  "bursts",   "periodic", "shared"};
  return kNames[static_cast<std::size_t>(kind)];
}

World::World(Kind kind, std::uint64_t seed) {
  Draws draws((seed << 4) + static_cast<std::uint64_t>(kind));
  ranks = 2 + draws.below(7);
  ranks_per_node = kind == Kind::shared ? 2 : 1 + draws.below(2);
  microbatches = ranks * (2 << draws.below(4));
  const double step = draws.log_uniform(0.05, 2);
  other_seconds = step * draws.uniform(0.03, 0.3);
  microbatch_seconds = (step - other_seconds) * ranks / microbatches;
  move_seconds = step * draws.uniform(0.1, 0.5);
  noise = draws.log_uniform(0.01, 0.1);
  node_processors = kind == Kind::shared ? draws.uniform(1, 1.9) : ranks_per_node;
  const double exchange = std::max(1.0, 4 * step);
  steps = static_cast<std::int64_t>(kExchanges * exchange / step);
  grid_ = exchange / kGridPerExchange;
  slowness_.assign(static_cast<std::size_t>(ranks),
                   std::vector<double>(static_cast<std::size_t>(kLongest * kExchanges * kGridPerExchange), 1.0));
  slow_down(kind, draws);
}

double World::slowness(int r, double time) const {
  const auto& all = slowness_[static_cast<std::size_t>(r)];
  return all[std::min(static_cast<std::size_t>(time / grid_), all.size() - 1)];
}

void World::slow_down(Kind kind, Draws& draws) {
  const int slow = draws.below(ranks), other = draws.below(ranks);
  const double factor = draws.log_uniform(1.2, 4), episode = duration() / kLongest;
  switch (kind) {
    case Kind::equal:
      return;
    case Kind::shared:
      if (draws.below(2) == 0) slow_at_times(draws, slow, 0, 2 * duration(), factor, true);
      return;
    case Kind::constant:
      return slow_at_times(draws, slow, 0, 2 * duration(), factor, true);
    case Kind::change:
      slow_at_times(draws, slow, draws.uniform(0, episode), 2 * duration(), factor, true);
      return slow_at_times(draws, other, 0, draws.uniform(0, episode), draws.log_uniform(1.2, 4), true);
    case Kind::gradual: {
      const double end = draws.uniform(0.1, 1) * episode;
      auto& all = slowness_[static_cast<std::size_t>(slow)];
      for (std::size_t i = 0; i < all.size(); ++i)
        all[i] *= 1 + (factor - 1) * std::min(1.0, static_cast<double>(i) * grid_ / end);
      return;
    }
    case Kind::walk:
      for (int r = 0; r < ranks; ++r) walk(draws, r);
      return;
    case Kind::bursts: {
      const double awaited = draws.log_uniform(10, 200), lasting = draws.log_uniform(2, 100);
      for (int r = 0; r < ranks; r += ranks_per_node)
        if (r / ranks_per_node % 2 == slow / ranks_per_node % 2)
          slow_at_times(draws, r, awaited, lasting, factor, false);
      return;
    }
    case Kind::periodic: {
      const double period = draws.log_uniform(2, 200), part = draws.uniform(0.1, 0.6);
      return slow_at_times(draws, slow, (1 - part) * period, part * period, factor, true);
    }
  }
}

/// The rank is slow for so many seconds after it was not for so many seconds, again and again.
void World::slow_at_times(Draws& draws, int r, double awaited, double lasting, double factor, bool is_regular) {
  const auto length = [&](double mean) { return is_regular ? mean : -mean * std::log(1 - draws.uniform(0, 1)); };
  const double end = duration();
  for (double time = length(awaited); time < end;) {
    const double until = std::min(end, time + length(lasting));
    for (int of_node = r; of_node < std::min(ranks, is_regular ? r + 1 : r + ranks_per_node); ++of_node) {
      auto& all = slowness_[static_cast<std::size_t>(of_node)];
      for (auto i = static_cast<std::size_t>(time / grid_); i < static_cast<std::size_t>(until / grid_); ++i)
        all[i] *= factor;
    }
    time = until + std::max(grid_, length(awaited));
  }
}

/// Ornstein and Uhlenbeck's process, of the logarithm.
void World::walk(Draws& draws, int r) {
  const double seconds = draws.log_uniform(5, 600), spread = draws.uniform(0.05, 0.4);
  const double kept = std::exp(-grid_ / seconds), added = spread * std::sqrt(1 - kept * kept);
  double now = spread * draws.normal();
  for (double& each : slowness_[static_cast<std::size_t>(r)]) {
    each = std::exp(now);
    now = kept * now + added * draws.normal();
  }
}

}  // namespace distdl::bench
