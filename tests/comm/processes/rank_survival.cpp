// SPDX-License-Identifier: Apache-2.0
#include "tests/comm/processes/rank_survival.hpp"

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <iostream>
#include <thread>

#include <fmt/ranges.h>
#include <unistd.h>

#include "tests/comm/faults/leftovers.hpp"
#include <distdl/base/env.hpp>
#include <distdl/world/folder_world.hpp>

namespace distdl::comm {
namespace {
using faults::Holdings;

class GatedWorld : public world::World {
 public:
  explicit GatedWorld(std::unique_ptr<World> world) : world_(std::move(world)) {}
  Rank rank() const override { return world_->rank(); }
  int size() const override { return world_->size(); }
  std::string description() const override { return world_->description(); }
  std::vector<std::string> all_gather_strings(const std::string& mine, Milliseconds timeout) override {
    auto all = world_->all_gather_strings(mine, timeout);
    std::cout << "exchanged" << std::endl;
    const auto gate = env("RANK_PROGRAM_GATE").value();
    const Deadline deadline = Deadline::after(Milliseconds(60'000));
    const auto fate = env("RANK_PROGRAM_FATE");
    if (fate) ::kill(::getpid(), *fate == "kill" ? SIGKILL : SIGSTOP);
    while (!std::filesystem::exists(gate)) {
      require<InternalError>(!deadline.expired(), "nobody made \"{}\"", gate);
      std::this_thread::sleep_for(Milliseconds(5));
    }
    return all;
  }

 private:
  std::unique_ptr<World> world_;
};

/// What UCX opens once for all is no leftover.
void open_once(const Options& options) {
  const std::string folder = fmt::format("{}-{}", env("RANK_PROGRAM_NEXT").value(), ::getpid());
  run_connected(*world::make_folder_world({folder, "alone", Rank(0), 1}), options, [](Communicator&) {});
  std::filesystem::remove_all(folder);
}

float sum_of_ranks(Communicator& comm) {
  std::vector<float> values(100'000, static_cast<float>(comm.rank().value + 1));
  comm.all_reduce(values).wait();
  require<InternalError>(std::ranges::all_of(values, [&](float value) { return value == values[0]; }), "{}",
                         "the sum differs between elements");
  return values[0];
}

}  // namespace

std::unique_ptr<world::World> gated(std::unique_ptr<world::World> world) {
  return std::make_unique<GatedWorld>(std::move(world));
}

void survive(world::World& world, Options options, const std::function<void(Communicator&)>& play) {
  open_once(options);
  const Holdings before = Holdings::now();
  std::vector<Rank> local_ranks;
  try {
    run_connected(world, options, [&](Communicator& comm) {
      local_ranks = comm.ranks_on_host_of(comm.rank());
      play(comm);
    });
    throw InternalError("no peer was lost");
  } catch (const PeerLost& lost) {
    std::vector<int> ranks;
    for (Rank rank : lost.ranks()) ranks.push_back(rank.value);
    std::cout << fmt::format("lost {}: {}", ranks, lost.what()) << std::endl;
  }
  const std::string more = Holdings::left_since(before);
  require<InternalError>(more.empty(), "left behind: {}", more);
  const auto self = std::ranges::find(local_ranks, world.rank());
  const auto next = world::make_folder_world(
      {env("RANK_PROGRAM_NEXT").value(), fmt::format("after-the-loss-{}", local_ranks.front()),
       Rank(static_cast<int>(self - local_ranks.begin())), static_cast<int>(local_ranks.size())});
  options.generation = 1;
  run_connected(*next, options, [&](Communicator& comm) {
    const float sum = sum_of_ranks(comm);
    std::cout << fmt::format("next generation of {}: sum {}", comm.size(), sum) << std::endl;
  });
}

}  // namespace distdl::comm
