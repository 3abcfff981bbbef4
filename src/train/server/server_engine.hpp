// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <distdl/tensor/buffer.hpp>
#include <distdl/train/compute/microbatches.hpp>
#include <distdl/train/engine/device_parameters.hpp>
#include <distdl/train/engine/engine.hpp>
#include <distdl/train/server/parameter_server.hpp>
#include <distdl/train/server/range_mover.hpp>

namespace distdl::train {

/// parallel.strategy = "parameter_server": workers compute what they are leased, and servers update
/// (docs/parameter-server.md). Ranks meet at the end of a round of steps.
class ServerEngine final : public Engine {
 public:
  /// Not collective. There must be a cluster.
  explicit ServerEngine(const EngineSetup& setup);

  Needs needs() const override;
  void allocate(TrainingState& state) override;
  void start_reading(const data::Sources& sources, const data::Sampler& sampler, const TrainingState& state) override;
  void keep_ranges(const TrainingState& state, const KeepRange& keep) override { server_.keep_ranges(state, keep); }
  void load_parameters(const float* arena) override;
  const float* on_device(const float* arena) override { return device_parameters_(arena); }
  std::optional<std::int64_t> round_steps() const override { return recipe_.parallel.servers.steps; }
  Advance advance(TrainingState& state, std::int64_t most_steps, const Calls& calls) override;
  void balance(TrainingState& state, const Advance& done, double seconds, bool is_disturbed) override {
    range_balancing_.round_done(state, std::ssize(done.steps), seconds, is_disturbed);
  }
  std::vector<model::Network*> networks() override { return {&microbatches_.network()}; }
  std::size_t devices() override { return microbatches_.replicas().size(); }
  std::string compression() const override { return server_.compression(); }
  void flip(const std::optional<BitFlip>& flip) override { microbatches_.flip(flip); }

 private:
  /// As a worker, until the round is over. Returns the seconds in which it waited.
  double work(const TrainingState& state, const Calls& calls);
  /// Writes the gradients where the work wants them.
  void compute(const TrainingState& state, const parallel::server::Runtime::Work& work, float scale);
  /// Takes the requests of all ranks, and makes `state` that of the end of the round.
  Advance meet(TrainingState& state, std::int64_t steps, const Calls& calls, double waited);
  bool is_synchronous() const { return recipe_.parallel.servers.mode == parallel::server::Mode::synchronous; }
  double all_terms() { return static_cast<double>(plan_.global_batch() * microbatches_.network().terms()); }

  const Recipe& recipe_;
  const parallel::Mesh& mesh_;
  kernels::Backend& backend_;
  const parallel::MicrobatchPlan plan_;
  const Step total_;
  Microbatches microbatches_;
  ParameterServer server_;
  RangeBalancing range_balancing_;
  DeviceParameters device_parameters_;
  tensor::Buffer device_gradients_;  ///< none: the backend's memory is the host's
};

}  // namespace distdl::train
