// SPDX-License-Identifier: Apache-2.0
// usage: balance_rules [EPISODES]. Variants of the rule by which microbatches move (train::LoadBalance), in simulated
// runs whose ranks change their speed: ninja -C build balance_rules && build/bin/balance_rules 100
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "world.hpp"
#include <distdl/parallel/gradient_sum.hpp>
#include <distdl/train/balance/microbatch_rule.hpp>

namespace {
namespace bench = distdl::bench;
namespace parallel = distdl::parallel;
using bench::Draws;
using bench::Kind;
using bench::World;
using distdl::train::LoadBalance;
using distdl::train::MoveRule;
using BalanceRule = MoveRule::Limits;

std::vector<std::size_t> arenas_of(const parallel::MicrobatchPlan& plan) {
  std::vector<std::size_t> all;
  for (const auto& range : plan.ranges) all.push_back(parallel::arenas_for(range, plan.microbatches) + 1);
  return all;
}

/// What divides the microbatches.
struct Divider {
  enum class Kind { equal, rule, clairvoyant } kind = Kind::rule;
  BalanceRule rule = {};
};

/// A run of one world, step by step.
class Episode {
 public:
  Episode(const World& world, const Divider& divider, std::uint64_t seed)
      : world_(world),
        divider_(divider),
        draws_(seed * 7919 + 1),
        options_{.microbatches = world.microbatches, .microbatch_size = 1},
        plan_(parallel::make_plan(options_, world.ranks)),
        arenas_(arenas_of(plan_)),
        partials_(static_cast<double>(most_partials(plan_))),
        balance_(options_, plan_, arenas_, divider.rule),
        seconds_(plan_.ranges.size()) {
    begin_exchange();
  }

  double seconds() {
    for (std::int64_t step = 0; step < world_.steps; ++step) {
      if (divider_.kind == Divider::Kind::clairvoyant && step % MoveRule::kLeastSteps == 0) divide_by_truth();
      measure(take_step());
    }
    return time_;
  }

 private:
  /// Of all ranks; seconds_ has what each has computed.
  double take_step() {
    for (std::size_t r = 0; r < seconds_.size(); ++r) {
      double factor = world_.slowness(static_cast<int>(r), time_) * std::max(0.1, 1 + world_.noise * draws_.normal());
      if (draws_.uniform(0, 1) < 0.002) factor *= draws_.log_uniform(1.5, 10);  // a page fault, a message that is late
      seconds_[r] = plan_.ranges[r].count * world_.microbatch_seconds * factor;
    }
    if (world_.node_processors < world_.ranks_per_node)
      for (std::size_t r = 0; r + 1 < seconds_.size(); r += 2) share_processors(seconds_[r], seconds_[r + 1]);
    const auto partials = static_cast<double>(moved_partials_);
    const double step =
        *std::ranges::max_element(seconds_) + late_ + world_.other_seconds * std::max(partials, partials_) / partials_;
    late_ = 0;
    time_ += step;
    return step;
  }

  /// Of two ranks, until the first is done.
  void share_processors(double& a, double& b) const {
    const double both = std::min(a, b), longer = both * (2 / world_.node_processors - 1);
    a += longer;
    b += longer;
  }

  /// As train::Balancing does.
  void measure(double step_seconds) {
    if (divider_.kind != Divider::Kind::rule) return;
    if (unmeasured_ > 0) {
      --unmeasured_;
      return;
    }
    const auto steps = static_cast<double>(steps_);
    for (std::size_t r = 0; r < times_.size(); ++r) {
      times_[r].microbatch_seconds += seconds_[r] / plan_.ranges[r].count / steps;
      times_[r].step_seconds += step_seconds / steps;
    }
    if (--until_next_ > 0) return;
    if (balance_.take(times_)) {
      use(balance_.plan());
      unmeasured_ = 1;
      late_ = world_.move_seconds;
    }
    steps_ = balance_.steps_until_next();
    begin_exchange();
  }

  void begin_exchange() {
    times_.assign(seconds_.size(), {});
    until_next_ = steps_;
  }

  void use(const parallel::MicrobatchPlan& plan) {
    plan_ = plan;
    moved_partials_ = most_partials(plan);
  }

  /// By the present speeds, which no rank knows, and at no cost.
  void divide_by_truth() {
    parallel::StepCosts costs{{}, world_.other_seconds, static_cast<std::size_t>(partials_)};
    for (int r = 0; r < world_.ranks; ++r)
      costs.microbatch_seconds.push_back(world_.slowness(r, time_) * world_.microbatch_seconds);
    if (const auto best = parallel::balanced_plan(options_, costs, arenas_)) use(*best);
  }

  const World& world_;
  const Divider& divider_;
  Draws draws_;
  parallel::Options options_;
  parallel::MicrobatchPlan plan_;
  std::vector<std::size_t> arenas_;
  double partials_;                 ///< of a rank, with equal shares
  std::size_t moved_partials_ = 0;  ///< of a rank, now
  LoadBalance balance_;
  double time_ = 0, late_ = 0;
  std::vector<double> seconds_;  ///< of each rank, in the last step
  std::vector<distdl::train::RankTimes> times_;
  std::int64_t steps_ = MoveRule::kLeastSteps, until_next_ = 0, unmeasured_ = 2;
};

/// The times of episodes, divided by those of the program's rule.
struct Ratios {
  double mean = 1, low = 1, high = 1;  ///< geometric mean; 5 of 100 are below, and above
};

Ratios compare(const Divider& divider, Kind kind, int episodes) {
  constexpr std::uint64_t kFirstSeed = 1'000'000;
  const Divider standard;
  std::vector<double> ratios;
  double sum = 0;
  for (int e = 0; e < episodes; ++e) {
    const auto seed = kFirstSeed + static_cast<std::uint64_t>(e);
    const World world(kind, seed);
    ratios.push_back(Episode(world, divider, seed).seconds() / Episode(world, standard, seed).seconds());
    sum += std::log(ratios.back());
  }
  std::ranges::sort(ratios);
  const std::size_t tail = ratios.size() / 20;
  return {std::exp(sum / episodes), ratios[tail], ratios[ratios.size() - 1 - tail]};
}

void show(const std::string& name, const Divider& divider, int episodes) {
  double sum = 0;
  fmt::print("| {} |", name);
  for (const auto kind : bench::kKinds) {
    const auto [mean, low, high] = compare(divider, kind, episodes);
    fmt::print(" {:.3f} ({:.2f} to {:.2f}) |", mean, low, high);
    sum += std::log(mean);
  }
  fmt::print(" {:.4f} |\n", std::exp(sum / bench::kKinds.size()));
}

void show_rule(const BalanceRule& rule, int episodes) {
  show(fmt::format("{}, {}, {}, {}", rule.window, rule.least_gain, rule.confirmations, rule.fruitless),
       {Divider::Kind::rule, rule}, episodes);
}
}  // namespace

int main(int argc, char** argv) {
  const int episodes = argc > 1 ? std::atoi(argv[1]) : 40;
  if (episodes < 1) {
    fmt::print(stderr, "usage: balance_rules [EPISODES], a number from 1 on\n");
    return 64;
  }
  fmt::print("| window, least gain, confirmations, fruitless |");
  for (const auto kind : bench::kKinds) fmt::print(" {} |", name_of(kind));
  fmt::print(" mean |\n|---|");
  for (std::size_t i = 0; i < bench::kKinds.size(); ++i) fmt::print("---|");
  fmt::print("---|\n");
  show("equal shares", {Divider::Kind::equal}, episodes);
  show("clairvoyant", {Divider::Kind::clairvoyant}, episodes);
  for (const std::size_t window : {2, 3, 5})
    for (const int confirmations : {1, 2, 3}) show_rule({.window = window, .confirmations = confirmations}, episodes);
  for (const double gain : {1.03, 1.05, 1.2}) show_rule({.least_gain = gain}, episodes);
  for (const std::int64_t fruitless : {2, 4, 16}) show_rule({.fruitless = fruitless}, episodes);
  show_rule({.least_gain = 1.05, .confirmations = 1, .fruitless = 2}, episodes);
}
