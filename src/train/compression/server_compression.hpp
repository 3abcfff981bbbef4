// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <distdl/comm/communicator.hpp>
#include <distdl/optim/arena_ranges.hpp>
#include <distdl/parallel/server/runtime.hpp>
#include <distdl/train/compression/compression_control.hpp>
#include <distdl/train/state/state.hpp>

namespace distdl::train {

/// The compression of the values that workers of a parameter server push and pull. With "auto", it also chooses one.
class ServerCompression {
 public:
  /// Average numbers of messages of a worker in a step.
  struct Messages {
    double pushes = 1, pulls = 1;
  };
  /// `ranges`: ranges of the servers. `holders`: number of ranks that have residuals, the first ones. The references
  /// must outlive this object.
  ServerCompression(const parallel::Options& options, comm::Communicator& world, const tensor::ArenaLayout& layout,
                    std::vector<optim::Elements> ranges, int holders, const Messages& messages);

  /// Collective, once.
  void allocate(TrainingState& state);
  /// Before each round. Returns whether it has another compression than the one before, because a warm-up is over.
  bool begin_round(Step step);
  /// Between two rounds: from now on the servers have these ranges.
  void set_ranges(std::vector<optim::Elements> ranges);
  /// The codes in use.
  const parallel::server::RangeCodes& codes() const { return codes_; }
  std::string in_use() const { return std::string(options_.compression.encoding.name()); }
  /// Encodes the gradients that this rank's worker has computed, plus the residuals of earlier codes. Without a code,
  /// adds the residuals to the gradients.
  void encode(const parallel::server::Runtime::Work& work);
  /// Collective, after a round, with what this rank waited in each step. Returns why the next round has another
  /// compression, if so.
  std::optional<std::string> round_done(std::int64_t steps, double waited_seconds);

 private:
  void use(parallel::Compression compression);
  CompressionChoosing::Candidate cost_of(parallel::Compression compression);
  void pass_on_residuals(float* gradients);

  parallel::Options options_;     ///< the compression is the one in use
  parallel::Compression wanted_;  ///< the compression of the job
  comm::Communicator& world_;
  const tensor::ArenaLayout& layout_;
  std::vector<optim::Elements> ranges_;
  int holders_;
  Messages messages_;
  parallel::server::RangeCodes codes_;
  parallel::CompressionState* state_ = nullptr;
  bool has_residuals_ = true;                    ///< true if residuals may differ from 0
  std::optional<CompressionChoosing> choosing_;  ///< with "auto"
};

}  // namespace distdl::train
