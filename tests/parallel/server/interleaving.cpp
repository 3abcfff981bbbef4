// SPDX-License-Identifier: Apache-2.0
#include "tests/parallel/server/interleaving.hpp"

#include <array>
#include <random>

#include <fmt/format.h>

namespace distdl::parallel::server::simulation {

Interleaving make_interleaving(std::uint64_t seed) {
  std::mt19937_64 random(seed * 0x9E3779B97F4A7C15u + 1);
  const auto between = [&](int least, int most) {
    return least + static_cast<int>(random() % static_cast<std::uint64_t>(most - least + 1));
  };
  Interleaving plan;
  plan.seed = seed;
  plan.rules.mode = static_cast<Mode>(between(0, 2));
  plan.rules.staleness = plan.rules.mode == Mode::bounded ? between(0, 3) : 0;
  plan.rules.microbatches = between(1, 4);
  plan.rules.steps = between(2, 6);
  plan.rules.ranges = between(1, 4);
  plan.rules.pieces = between(1, 3);
  plan.rules.late_ticks = between(3, 30);
  plan.servers = between(1, 4);
  plan.workers = between(1, 4);
  constexpr std::array kDrops{0.0, 0.02, 0.1, 0.3};
  plan.drop = kDrops[random() % kDrops.size()];
  plan.repeat = kDrops[random() % kDrops.size()] / 2;
  if (random() % 5 == 0) return plan;  // without faults
  plan.lost_workers = between(0, 3);
  plan.lost_servers = between(0, 2);
  plan.lost_schedulers = between(0, 2);
  plan.frozen_workers = between(0, 1);
  plan.joined_workers = between(0, 1);
  plan.joined_servers = between(0, 1);
  plan.may_be_wrong = random() % 2 == 0;
  plan.are_spaced = random() % 4 != 0;
  return plan;
}

std::string describe(const Interleaving& plan) {
  constexpr std::array kModes{"synchronous", "bounded", "asynchronous"};
  return fmt::format(
      "seed {}: {}, staleness {}, {} steps of {}, {} ranges of {} pieces, {} servers, {} workers; drop {}, repeat {}; "
      "lost: {} workers, {} servers, {} schedulers; frozen {}; joined {} workers, {} servers{}{}",
      plan.seed, kModes[static_cast<std::size_t>(plan.rules.mode)], plan.rules.staleness, plan.rules.steps,
      plan.rules.microbatches, plan.rules.ranges, plan.rules.pieces, plan.servers, plan.workers, plan.drop, plan.repeat,
      plan.lost_workers, plan.lost_servers, plan.lost_schedulers, plan.frozen_workers, plan.joined_workers,
      plan.joined_servers, plan.may_be_wrong ? ", some run on" : "", plan.are_spaced ? ", spaced" : "");
}

}  // namespace distdl::parallel::server::simulation
