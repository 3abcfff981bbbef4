// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>

#include <distdl/data/prefetcher.hpp>
#include <distdl/data/sampler.hpp>
#include <distdl/data/source.hpp>
#include <distdl/model/network.hpp>
#include <distdl/optim/optimizer.hpp>
#include <distdl/optim/part_squares.hpp>
#include <distdl/parallel/gradient_sum.hpp>
#include <distdl/parallel/mesh.hpp>
#include <distdl/parallel/plan.hpp>
#include <distdl/parallel/step_tail.hpp>
#include <distdl/train/bit_flip.hpp>
#include <distdl/train/recipe.hpp>
#include <distdl/train/state.hpp>
#include <distdl/train/trainer/auditor.hpp>
#include <distdl/train/trainer/held_model.hpp>
#include <distdl/train/trainer/pipeline.hpp>

namespace distdl::train {

/// One rank's part of an optimizer step: forward, backward, sum of the gradients over all ranks, update.
class TrainingStep {
 public:
  /// Not collective. The references must outlive this object. `plan`: of the replicas, until set_plan().
  TrainingStep(const Recipe& recipe, const parallel::Mesh& mesh, kernels::Backend& backend,
               const parallel::MicrobatchPlan& plan, const HeldModel& held, Step total);
  /// One of each stage of this rank, in their order.
  std::vector<model::Network*> networks() {
    return pipeline_ ? pipeline_->networks() : std::vector<model::Network*>{&network_};
  }
  /// Call it after a change of the parameters from outside.
  void load_parameters(const float* arena);
  const optim::Optimizer& optimizer() const { return optimizer_; }
  Auditor& auditor() { return auditor_; }
  /// For tests and drills.
  void flip(const std::optional<BitFlip>& flip) { flip_ = flip; }
  /// See TrainingState.
  std::optional<optim::Elements> shard() const;
  /// Collective, called once before the first step. Where the ranks have shards, the parameters move to memory that the
  /// node's other ranks can read, too.
  void allocate(TrainingState& state);
  /// Begins to read this rank's samples ahead, starting at `state.position`.
  void start_reading(const data::Sources& sources, const data::Sampler& sampler, const TrainingState& state);
  const parallel::MicrobatchPlan& plan() const { return plan_; }
  /// Collective, see parallel::GradientSum.
  void allocate_spare() { sum_.allocate_spare(); }
  /// Between two steps. From now on the ranks compute the microbatches of this plan, which gives the same bits.
  void set_plan(const parallel::MicrobatchPlan& plan, const TrainingState& state);

  /// The requests of this rank to all ranks after the step.
  struct Requests {
    bool stop = false, save = false;
  };
  struct Result {
    Requests agreed;  ///< the requests of all ranks together
    double loss = 0, accuracy = 0, learning_rate = 0;
    double waited_seconds = 0;  ///< time of waiting for samples
    std::optional<double> compute_seconds =
        {};                                 ///< of this rank's microbatches, without waiting; not in each step on a GPU
    std::optional<double> norm = {};        ///< norm of the gradients; only with clipping
    std::optional<double> loss_scale = {};  ///< of this step; only with float16
    bool skipped = false;                   ///< the gradients overflowed
    std::optional<double> audit_seconds = {};  ///< time of the audit before this step, if there was one
    /// With several ranks: the time that the sums over the ranks took, and that part of it in which this rank waited
    /// for them, which its backward pass and its update did not hide.
    std::optional<double> sum_seconds = {}, sum_waited_seconds = {};
    /// With a pipeline: the time of the stages' passes, and that part of it in which a rank waited for other stages, on
    /// average.
    std::optional<double> pipeline_seconds = {}, pipeline_waited_seconds = {};
  };
  /// Collective. Changes the state. `before_update` returns when the arenas of the state may be written. Throws
  /// comm::PeerLost, and AuditFailed before it changes the state.
  Result operator()(TrainingState& state, const Requests& requests, const std::function<void()>& before_update);

 private:
  bool add_gradients(const TrainingState& state, float scale, const Requests& requests);
  void pass_stages(const TrainingState& state, float scale);
  /// Collective. Of the ranks of a replica, one of which tells the totals. `squares` becomes the sum of the
  /// squares of all gradients, if that is wanted.
  parallel::StepTail::Sums agree(const parallel::StepTail::Sums& mine, const float* gradients,
                                 std::optional<double>& squares);
  const data::Batch& batch_of(const TrainingState& state, int m);
  void set_key(const TrainingState& state, int m);
  bool has_samples() { return network_.reads_samples() || networks().back()->has_loss(); }
  double data_waited_seconds() const { return reader_ ? reader_->waited_seconds() : 0; }
  void tell(const Requests& requests);
  /// Collective. Adds the seconds of the wait to `waited`.
  const parallel::Bucket* next_sum(double& waited);
  void update(const optim::Arenas& arenas, bool in_parts, double& waited);
  /// Collective.
  void change_parameters(const optim::Arenas& arenas, bool in_parts, double& waited);
  /// Collective. Gets the parameters that the other ranks have updated.
  void gather(const optim::Arenas& arenas);
  /// Waits until a device has done what it was given. False in steps in which that would only cost time.
  bool await_gradients(Step step);
  /// This rank's first position in the step that begins at `start`, and the one after each.
  std::int64_t first_position(std::int64_t start) const { return start + range_.first * plan_.microbatch_size; }
  data::Prefetcher::Next order_from(const TrainingState& state) const;
  /// Of microbatch `m` of the step.
  void compute(const TrainingState& state, int m, float scale, float* gradients,
               const model::Network::Finished& finished = {});
  void flip_bit_if_due(const TrainingState& state, BitFlip::Where where, float* arena);
  /// Collective.
  void audit(TrainingState& state, float scale);

  const Recipe& recipe_;
  const parallel::Mesh& mesh_;
  comm::Communicator& communicator_;  ///< of the ranks with the same part of the model
  kernels::Backend& backend_;
  parallel::MicrobatchPlan plan_;
  comm::LeafRange range_;
  Rank rank_;
  Step total_;
  model::Network network_;
  parallel::GradientSum sum_;
  parallel::StepTail tail_;
  optim::Optimizer optimizer_;
  std::vector<optim::Elements> shards_;    ///< of each rank; none: each rank updates everything
  std::vector<std::size_t> shard_counts_;  ///< of their elements
  Auditor auditor_;
  std::optional<BitFlip> flip_;
  std::optional<data::Prefetcher> reader_;
  std::optional<Pipeline> pipeline_;             ///< none: this rank has all layers
  double pass_seconds_ = 0, stages_waited_ = 0;  ///< see Result
  std::optional<optim::PartSquares> squares_;    ///< of a replica's ranks, where all gradients determine the update
};

}  // namespace distdl::train
