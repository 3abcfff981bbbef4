// SPDX-License-Identifier: Apache-2.0
// A rank of bench/comm_two_nodes: all_reduce_rank [--network]   (no shared memory: the network carries everything)
// Rank 0 reads lines "measure all_reduce float32 BYTES SECONDS [ALGORITHM [SEGMENT_BYTES]]" and answers "times T1 T2
// ...": seconds of a call, the slowest rank's, each the mean of a block of calls that follows a barrier; as
// bench/peers/ do.
#include <algorithm>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "measuring_rank.hpp"
#include <distdl/base/clock.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/comm/algorithms/registry.hpp>
#include <distdl/comm/communicator.hpp>

namespace {
using namespace distdl;

constexpr int kMostBlocks = 500, kFewestBlocks = 3;
constexpr double kBlockSeconds = 200e-6;

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

std::vector<double> measure(comm::Communicator& comm, const std::string& command) {
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
  return measurement.times(seconds);
}
}  // namespace

int main(int argc, char** argv) {
  return distdl::bench::answer_commands("all_reduce_rank", argc, argv, &measure);
}
