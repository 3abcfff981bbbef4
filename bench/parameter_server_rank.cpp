// SPDX-License-Identifier: Apache-2.0
// A rank of bench/parameter_server_two_nodes: parameter_server_rank [--network]   (no shared memory)
// Rank 0 has a worker, rank 1 a server. Rank 0 reads lines "measure BYTES SECONDS [PULLS [COMPRESSION]]" and answers
// "times T1 T2 ...": seconds of a pull of BYTES of parameters and a push of as many bytes of gradients, which the
// server adds, each the mean of a block; as bench/peers/parameter_server_torch.py does. PULLS and COMPRESSION are
// values of parallel.server_pulls and parallel.compression.
#include <algorithm>
#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

#include "measuring_rank.hpp"
#include <distdl/base/clock.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/comm/communicator.hpp>
#include <distdl/parallel/server/runtime.hpp>

namespace {
using namespace distdl;
using namespace distdl::parallel::server;

constexpr int kBlocks = 5;

class Measurement {
 public:
  Measurement(comm::Communicator& comm, std::size_t parameters, Pulls pulls, parallel::Compression compression)
      : comm_(comm),
        arena_(parameters),
        residual_(parameters),
        codes_(codes_of(parameters, compression)),
        runtime_(comm, {{{Rank(1)}, {Rank(0)}, {}}, {{0, parameters}}, parameters, false, 1, pulls},
                 [this](const Apply&, const RangeGradient& gradient) {
                   for (std::size_t i = 0; i < arena_.size(); ++i) arena_[i] += gradient.values[i];
                 }) {
    runtime_.use(codes_);
  }

  /// Seconds of a pull and a push, on average.
  double round(std::int64_t pushes) {
    const Rules rules{.mode = Mode::asynchronous, .steps = pushes, .has_partners = false};
    comm_.barrier().wait();
    const Stopwatch stopwatch;
    runtime_.begin(rules, {}, arena_.data());
    while (const auto work = runtime_.next([] {})) {
      require<InternalError>(work->code || work->parameters[arena_.size() - 1] == static_cast<float>(pushed_++), "{}",
                             "the parameters do not have the gradients that were pushed");
      // Of the two buffers that take turns, each is filled once.
      if (work->gradients[arena_.size() - 1] != 1) std::fill_n(work->gradients, arena_.size(), 1.0F);
      if (work->code) codes_.gradients[0].encode({work->gradients, arena_.size()}, residual_, work->code);
      runtime_.computed();
    }
    runtime_.end();
    return stopwatch.seconds() / static_cast<double>(pushes);
  }

 private:
  static RangeCodes codes_of(std::size_t parameters, parallel::Compression compression) {
    tensor::ArenaLayout layout;
    layout.add("all", {static_cast<std::int64_t>(parameters)});
    return parallel::server::codes_of({.compression = compression}, layout, {{0, parameters}});
  }

  comm::Communicator& comm_;
  std::vector<float> arena_, residual_;
  RangeCodes codes_;
  std::int64_t pushed_ = 0;
  Runtime runtime_;
};

std::vector<double> measure(comm::Communicator& comm, const std::string& command) {
  std::istringstream words(command);
  std::string word, pulls = "auto", compression = "none";
  std::size_t bytes = 0;
  double seconds = 0;
  words >> word >> bytes >> seconds >> pulls >> compression;
  require(bytes >= sizeof(float), "a line \"{}\": \"measure BYTES SECONDS [PULLS [COMPRESSION]]\" is expected",
          command);
  Measurement measurement(comm, bytes / sizeof(float), OneOf<Pulls>(pulls), OneOf<parallel::Compression>(compression));
  measurement.round(2);
  std::vector<double> one{measurement.round(2)};
  comm.broadcast(one, Rank(0)).wait();
  const auto pushes = std::max<std::int64_t>(2, static_cast<std::int64_t>(seconds / kBlocks / one[0]));
  std::vector<double> all(kBlocks);
  for (double& time : all) time = measurement.round(pushes);
  return all;
}
}  // namespace

int main(int argc, char** argv) {
  return distdl::bench::answer_commands("parameter_server_rank", argc, argv, &measure);
}
