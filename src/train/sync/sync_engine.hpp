// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include <distdl/data/sampler.hpp>
#include <distdl/data/source.hpp>
#include <distdl/model/network.hpp>
#include <distdl/parallel/gradient_sum.hpp>
#include <distdl/parallel/mesh.hpp>
#include <distdl/parallel/plan.hpp>
#include <distdl/train/audit/auditor.hpp>
#include <distdl/train/compression/gradient_compression.hpp>
#include <distdl/train/compute/microbatches.hpp>
#include <distdl/train/local_sgd/local_sgd.hpp>
#include <distdl/train/ranks/held_model.hpp>
#include <distdl/train/recipe.hpp>
#include <distdl/train/server/parameter_server.hpp>
#include <distdl/train/state/state.hpp>
#include <distdl/train/sync/passes.hpp>
#include <distdl/train/sync/sync_step.hpp>
#include <distdl/train/sync/totals.hpp>
#include <distdl/train/sync/update.hpp>

namespace distdl::train {

/// One rank's part of an optimizer step: forward, backward, sum of the gradients over all ranks, update.
class TrainingStep {
 public:
  /// Not collective. The references must outlive this object. `plan`: of the replicas, until set_plan(). `cluster`: see
  /// cluster_for().
  TrainingStep(const Recipe& recipe, const parallel::Mesh& mesh, kernels::Backend& backend,
               const parallel::MicrobatchPlan& plan, const HeldModel& held, Step total, std::int64_t devices,
               const std::optional<parallel::Cluster>& cluster);
  /// One of each stage of this rank, in their order.
  std::vector<model::Network*> networks() { return passes_->networks(); }
  std::size_t devices() { return microbatches_.replicas().size(); }
  /// Call it after a change of the parameters from outside. `arena`: of the state.
  void load_parameters(const float* arena) { load(on_device(arena)); }
  /// Parameters of the state where the model's backend can use them, until the next call.
  const float* on_device(const float* arena);
  /// The arenas that the state has besides the parameters; those of groups not counted.
  std::vector<optim::StateArena> state_arenas() const {
    return local_ ? local_->state_arenas() : update_->state_arenas();
  }
  /// The compression of the next step; empty: there is none.
  std::string compression() const {
    if (server_) return server_->compression();
    return compression_ ? compression_->in_use() : "";
  }
  Auditor& auditor() { return auditor_; }
  /// Bytes of the arenas in which gradients are summed.
  std::size_t gradient_bytes() const { return sum_.bytes(); }
  /// For tests and drills.
  void flip(const std::optional<BitFlip>& flip) { microbatches_.flip(flip); }
  /// See TrainingState.
  std::vector<optim::Elements> shard() const;
  /// Whether this rank has the parameters of its shard only, and others those of theirs.
  bool shards_parameters() const { return update_->shards_parameters(); }
  /// Collective, called once when the state has its first values. Ranks of one node that have a part of the parameters
  /// each move it to one arena, which all of them read: nothing is gathered.
  void share(TrainingState& state) { update_->share(state); }
  /// With the parameters of the shard only: makes the passes of an evaluation collective. None: all parameters can be
  /// read.
  ParameterBlocks* parameter_blocks() { return update_->blocks(); }
  /// Collective, called once before the first step. Where the ranks have shards of moments or gradients, the parameters
  /// move to memory that the node's other ranks can read, too.
  void allocate(TrainingState& state);
  /// Begins to read this rank's samples ahead, starting at `state.position`.
  void start_reading(const data::Sources& sources, const data::Sampler& sampler, const TrainingState& state);
  /// With local SGD: of a group.
  const parallel::MicrobatchPlan& plan() const { return plan_; }
  /// Collective, see parallel::GradientSum.
  void allocate_spare() { sum_.allocate_spare(); }
  /// Between two steps. From now on the ranks compute the microbatches of this plan, which gives the same bits.
  void set_plan(const parallel::MicrobatchPlan& plan, const TrainingState& state);

  using Requests = StepRequests;
  using Result = StepResult;
  /// Collective. Changes the state. `before_update` returns when the arenas of the state may be written. Throws
  /// comm::PeerLost, and AuditFailed before it changes the state.
  Result operator()(TrainingState& state, const Requests& requests, const std::function<void()>& before_update);

  /// Whether round() takes the place of steps.
  bool has_server() const { return server_.has_value(); }
  /// Whether the state lies in the host's memory, whatever the backend's is.
  bool has_state_in_host_memory() const { return server_ || local_; }
  /// Null: the ranks sum gradients.
  ParameterServer* server() { return server_ ? &*server_ : nullptr; }
  /// Collective, with a server, once before the first round: see ParameterServer.
  void keep_ranges(const TrainingState& state, KeepRange keep) { server_->keep_ranges(state, std::move(keep)); }
  /// What a round asks of its caller.
  struct RoundCalls {
    std::function<bool()> wants_end;         ///< whether this rank wants to stop or to save: asked again and again
    std::function<Requests(Step)> requests;  ///< of this rank, after the last step of the round
    std::function<void()> before_update;     ///< see operator()
  };
  struct Round {
    Requests agreed;
    std::vector<Result> steps;
    std::vector<std::int64_t> staleness;  ///< see ParameterServer::Round
  };
  /// Collective, with parallel.strategy = "parameter_server": some steps, at least one. `most_steps` is the same on all
  /// ranks. Changes the state. Throws comm::PeerLost.
  Round round(TrainingState& state, std::int64_t most_steps, const RoundCalls& calls);

 private:
  /// Collective over the ranks that sum gradients together.
  Result step(TrainingState& state, const Requests& requests, const std::function<void()>& before_update);
  /// Collective. The same of each group of this rank, whose parameters are averaged at the end of a round.
  Result step_of_groups(TrainingState& state, const Requests& requests, const std::function<void()>& before_update);
  /// Collective. After the last step of a round.
  void end_round(TrainingState& state, Result& all);
  /// As a worker, until the round is over. Adds the seconds in which it waited.
  void work(const TrainingState& state, const RoundCalls& calls, double& waited);
  /// The same of an arena that the backend can use.
  void load(const float* arena);
  /// Writes the gradients where the work wants them.
  void compute_leased(const TrainingState& state, const parallel::server::Runtime::Work& work, float scale);
  void compress_sums();
  bool has_samples() { return network_.reads_samples() || networks().back()->has_loss(); }
  double data_waited_seconds() const { return microbatches_.waited_seconds(); }
  std::int64_t step_samples() const { return microbatches_.step_samples(); }
  std::shared_ptr<const ReadingOrder> reading_order() const;

  const Recipe& recipe_;
  const parallel::Mesh& mesh_;
  const HeldModel& held_;
  comm::Communicator& communicator_;  ///< of the ranks with the same part of the model, or the same group
  kernels::Backend& backend_;
  parallel::MicrobatchPlan plan_;  ///< of a group, if there are groups
  comm::LeafRange range_;
  Rank rank_;
  Step total_;
  Microbatches microbatches_;
  model::Network& network_;  ///< of the first device
  // The sums, and what follows them in their thread, need these two: they are there longer.
  std::optional<GradientCompression> compression_;  ///< of gradients, or of rounds of local SGD; none: sums are exact
  std::unique_ptr<Update> update_;
  parallel::GradientSum sum_;
  Auditor auditor_;
  std::unique_ptr<Passes> passes_;
  std::optional<TotalsSum> totals_;
  std::optional<LocalSgd> local_;          ///< none: there are no groups
  std::optional<ParameterServer> server_;  ///< none: the ranks sum gradients
  // Where the backend has other memory than the state; gradients those of a worker.
  tensor::Buffer device_parameters_, device_gradients_;
};

}  // namespace distdl::train
