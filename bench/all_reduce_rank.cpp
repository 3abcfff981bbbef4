// SPDX-License-Identifier: Apache-2.0
// A rank of bench/comm_two_nodes: all_reduce_rank [--network]   (no shared memory: the network carries everything)
// Rank 0 reads lines "measure all_reduce float32 BYTES SECONDS [ALGORITHM [SEGMENT_BYTES]]" and answers "times T1 T2
// ...": seconds of a call, the slowest rank's, each the mean of a block of calls that follows a barrier; as
// bench/peers/ do.
#include <algorithm>
#include <cstring>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <distdl/base/clock.hpp>
#include <distdl/comm/algorithms/registry.hpp>
#include <distdl/comm/communicator.hpp>
#include <distdl/world/make_world.hpp>

namespace {
using namespace distdl;

constexpr int kMostBlocks = 500, kFewestBlocks = 3;
constexpr double kBlockSeconds = 200e-6;

/// Rank 0's next line, for all; empty at the end.
std::string next_command(comm::Communicator& comm) {
  std::vector<std::byte> text(256);
  if (comm.rank() == Rank(0)) {
    std::string line;
    std::getline(std::cin, line);
    std::memcpy(text.data(), line.data(), std::min(line.size(), text.size() - 1));
  }
  // Whoever works at the keyboard may take his time.
  comm.broadcast(text, Rank(0), {.timeout = std::chrono::hours(12)}).wait();
  return reinterpret_cast<const char*>(text.data());
}

class Measurement {
 public:
  Measurement(comm::Communicator& comm, std::size_t bytes, comm::CallOptions how)
      : comm_(comm), memory_(comm.allocate(bytes)), values_(memory_.as<float>()), how_(how) {}

  bool is_right() {
    const float size = static_cast<float>(comm_.size());
    std::ranges::fill(values_, static_cast<float>(comm_.rank().value));
    comm_.all_reduce(values_, how_).wait();
    return std::ranges::all_of(values_, [&](float value) { return value == size * (size - 1) / 2; });
  }

  std::vector<double> times(double seconds) {
    int calls = 1;
    std::vector<double> block(1);
    while ((block[0] = timed(calls) * calls, comm_.broadcast(block, Rank(0)).wait(), block[0] < kBlockSeconds))
      calls *= 2;
    std::vector<double> all(std::clamp(static_cast<int>(seconds / block[0]), kFewestBlocks, kMostBlocks));
    for (double& time : all) time = timed(calls);
    comm_.all_reduce(all, {.reduction = comm::Reduction::maximum}).wait();
    return all;
  }

 private:
  double timed(int calls) {
    comm_.barrier().wait();
    const Stopwatch stopwatch;
    for (int call = 0; call < calls; ++call) comm_.all_reduce(values_, how_).wait();
    return stopwatch.seconds() / calls;
  }

  comm::Communicator& comm_;
  tensor::Buffer memory_;
  std::span<float> values_;
  comm::CallOptions how_;
};

void answer(comm::Communicator& comm, const std::string& command) {
  std::istringstream words(command);
  std::string word, algorithm;
  double bytes = 0, seconds = 0;
  std::size_t segment = 0;
  words >> word >> word >> word >> bytes >> seconds >> algorithm >> segment;
  comm::CallOptions how;
  if (!algorithm.empty()) how.choice = {.algorithm = comm::algorithm_of(algorithm), .segment = segment / sizeof(float)};
  if (algorithm == "ring") how.order = how.choice->order = comm::Order::any;
  Measurement measurement(comm, static_cast<std::size_t>(bytes), how);
  require<InternalError>(measurement.is_right(), "{}: wrong result", command);
  const auto times = measurement.times(seconds);
  if (comm.rank() == Rank(0)) fmt::print("times {:.9g}\n", fmt::join(times, " "));
}
}  // namespace

int main(int argc, char** argv) try {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  comm::Options options;
  options.shared_memory_ranks = argc > 1 && std::string(argv[1]) == "--network" ? 1 : 0;
  const auto world = world::make_world();
  comm::run_connected(*world, options, [](comm::Communicator& comm) {
    if (comm.rank() == Rank(0)) fmt::print("ready {}\n", comm.description());
    for (auto command = next_command(comm); !command.empty(); command = next_command(comm)) answer(comm, command);
  });
  return 0;
} catch (const std::exception& error) {
  fmt::print(stderr, "all_reduce_rank: {}\n", error.what());
  return static_cast<int>(distdl::exit_code_of(error));
}
