// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <distdl/train/compression/gradient_compression.hpp>
#include <distdl/train/engine/device_parameters.hpp>
#include <distdl/train/engine/engine.hpp>
#include <distdl/train/local_sgd/local_sgd.hpp>
#include <distdl/train/sync/sync_engine.hpp>

namespace distdl::train {

/// parallel.strategy = "local_sgd": each group does the steps of ranks that sum gradients, and at the end of a round
/// the groups are averaged (docs/local-sgd.md).
class LocalSgdEngine final : public Engine {
 public:
  /// Not collective.
  explicit LocalSgdEngine(const EngineSetup& setup);

  Needs needs() const override { return {.arenas = groups_.state_arenas(), .in_host_memory = true}; }
  void allocate(TrainingState& state) override;
  void start_reading(const data::Sources& sources, const data::Sampler& sampler, const TrainingState& state) override {
    sync_.start_reading(sources, sampler, state);
  }
  void load_parameters(const float* arena) override { sync_.load_parameters(on_device(arena)); }
  const float* on_device(const float* arena) override { return device_parameters_(arena); }
  Advance advance(TrainingState& state, std::int64_t most_steps, const Calls& calls) override;
  void balance(TrainingState& state, const Advance& done, double seconds, bool is_disturbed) override {
    sync_.balance(state, done, seconds, is_disturbed);
  }
  std::vector<model::Network*> networks() override { return sync_.networks(); }
  std::size_t devices() override { return sync_.devices(); }
  std::size_t gradient_bytes() const override { return sync_.gradient_bytes(); }
  std::string compression() const override { return compression_ ? compression_->in_use() : ""; }
  void flip(const std::optional<BitFlip>& flip) override { sync_.flip(flip); }

 private:
  /// Collective over the ranks of each group of this rank. Adds up their times.
  StepResult do_groups(TrainingState& state, const StepRequests& requests, const std::function<void()>& before_update);
  /// Collective. Sets the result of the step from the results of all groups.
  void meet(TrainingState& state, StepResult& all);
  /// Collective, after the last step of a round.
  void end_round(TrainingState& state, StepResult& all);
  void scale_loss(TrainingState& state, bool has_overflow, records::StepDone& record) const;

  const Recipe& recipe_;
  const parallel::Mesh& mesh_;
  kernels::Backend& backend_;
  const OwnedModel& held_;
  std::optional<GradientCompression> compression_;  ///< compression of the averages of rounds; none: they are exact
  SyncEngine sync_;                                 ///< does the steps of the groups, one group after the other
  LocalSgd groups_;
  DeviceParameters device_parameters_;
};

}  // namespace distdl::train
