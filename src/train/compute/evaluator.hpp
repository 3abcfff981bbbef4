// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <distdl/comm/communicator.hpp>
#include <distdl/data/source.hpp>
#include <distdl/model/network.hpp>
#include <distdl/parallel/mesh.hpp>
#include <distdl/train/ranks/stage_message.hpp>

namespace distdl::train {

/// Evaluates a model on the validation samples. The samples form fixed groups, which are divided among the replicas and
/// summed in a fixed order. In a pipeline groups pass all stages.
class Evaluator {
 public:
  /// `networks`, of each stage of this rank, evaluate whole groups; others, of `parts`, are created for the rest, and
  /// keep as many activations. The references must outlive the evaluator. Throws ConfigError if the targets of the
  /// model's loss are not the samples' labels.
  Evaluator(kernels::Backend& backend, const model::Description& model, std::span<const model::ModelTensors> parts,
            std::span<model::Network* const> networks, const data::Sources& samples, const parallel::Mesh& mesh,
            model::Network::Activations activations);
  std::int64_t samples() const { return samples_ ? samples_->samples() : 0; }
  /// Collective. The parameter arena is in the backend's memory. Returns the sums over all validation samples, or
  /// nothing on all ranks if `stops()` became true on one of them.
  std::optional<model::Totals> operator()(const float* parameters, comm::Communicator& communicator,
                                          const std::function<bool()>& stops);
  /// The other ranks evaluate nothing. All do by default. Not for ranks that have a part of the model.
  void divide_among(std::span<const Rank> ranks);
  /// For ranks whose evaluations are collective: they make equally many, where a rank has none it calls skip() with the
  /// number of a stage.
  void evaluate_together(std::function<void(std::size_t stage)> skip) { skip_ = std::move(skip); }
  /// Calls connect() with each network that was created here, and the number of its stage, for ranks that have some of
  /// the shards of a model, of the chunks of its sequences or of its parameters.
  void connect(const std::function<void(model::Network&, std::size_t stage)>& connect) {
    for (std::size_t stage = 0; stage < parts_.size(); ++stage)
      if (parts_[stage].rest) connect(*parts_[stage].rest, stage);
  }

 private:
  /// A stage.
  struct Part {
    model::Network& whole;
    std::unique_ptr<model::Network> rest;
    std::optional<StageMessage> message;  ///< with a pipeline
  };
  std::int64_t group_size() const { return parts_.front().whole.samples(); }
  void load(model::Network& network, std::int64_t first);
  /// The totals, if this rank tells them.
  std::optional<model::Totals> evaluate_group(Part& part, std::int64_t group);
  /// The groups from `group` to `end`; of those from `own_end` on, takes part in what others do.
  void evaluate_block(std::int64_t group, std::int64_t own_end, std::int64_t end, std::vector<model::Totals>& totals);
  void pass_stage(Part& part, model::Network& network);

  const parallel::Mesh& mesh_;
  std::int64_t place_, places_;  ///< among the replicas that evaluate
  data::Source* samples_;
  data::Batch batch_;
  bool is_mixed_;  ///< the loss takes mixed targets, see kernels::CrossEntropy
  std::vector<Part> parts_;
  std::function<void(std::size_t)> skip_;  ///< none: each evaluates alone
};

}  // namespace distdl::train
