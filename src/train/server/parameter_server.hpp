// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <distdl/kernels/backend.hpp>
#include <distdl/optim/optimizer.hpp>
#include <distdl/optim/shards.hpp>
#include <distdl/parallel/mesh.hpp>
#include <distdl/parallel/plan.hpp>
#include <distdl/parallel/server/runtime.hpp>
#include <distdl/train/compression/server_compression.hpp>
#include <distdl/train/recipe.hpp>
#include <distdl/train/state/kept_range.hpp>
#include <distdl/train/state/state.hpp>

namespace distdl::train {

/// A rank's part in the parameter server (docs/parameter-server.md): its range, and the updates by its server. Between
/// two rounds all ranks have all parameters, and each server the moments of its range.
class ParameterServer {
 public:
  /// Not collective. The references must outlive this object. `all_terms`: terms of the loss of a step.
  ParameterServer(const Recipe& recipe, const parallel::Mesh& mesh, parallel::Cluster cluster,
                  const tensor::ArenaLayout& layout, const parallel::MicrobatchPlan& plan, double all_terms,
                  Step total);

  /// The range of this rank's server, which may be empty.
  std::vector<optim::Elements> shard() const;
  /// The parts of a step: microbatches that are leased together.
  const parallel::server::StepParts& parts() const { return parts_; }
  const parallel::Cluster& cluster() const { return cluster_; }
  /// The number of workers of the run.
  std::int64_t workers() const { return static_cast<std::int64_t>(cluster_.workers.size()); }
  /// Collective. Connects the roles.
  void allocate(TrainingState& state);

  /// Collective, once, before the first round. Partners get the moments of their ranges. From now on all holders keep
  /// their ranges: after each step where steps are common to them (`synchronous`), else at the end of each round.
  void keep_ranges(const TrainingState& state, KeepRange how);

  /// Totals of all microbatches of a step.
  struct Totals {
    double loss = 0, correct = 0, terms = 0;
  };
  /// The result of a round, known to all ranks after it.
  struct Round {
    std::int64_t steps = 0;
    std::vector<Totals> totals;  ///< totals of each step
    /// For each number of updates that the parameters of a gradient lacked, how many updates of a range had that many;
    /// the last number stands for more, too.
    std::vector<std::int64_t> staleness;
    bool stop = false, save = false;  ///< a rank has requested it
  };
  /// Begins a round of at most so many steps, from the state on.
  void begin(TrainingState& state, std::int64_t steps);
  std::optional<parallel::server::Runtime::Work> next(const std::function<void()>& idle) {
    return work_ = runtime_->next(idle);
  }
  void computed();
  void end_soon() { runtime_->end_soon(); }
  void abort(const std::string& reason, ExitCode code) noexcept { runtime_->abort(reason, code); }
  /// Waits until all servers have ended the round, whose steps it returns.
  std::int64_t end() { return runtime_->end(); }
  /// Collective, after end(). Gathers what the servers have, and keeps it where that is due. `stop`, `save`: requests
  /// of this rank.
  Round meet(std::int64_t steps, bool stop, bool save);
  /// For each range, how long this rank's worker waited for its server in the last round; see AnswerTimes.
  const std::vector<double>& answer_seconds() const { return runtime_->answer_seconds(); }
  /// Collective, after meet(): from now on the servers have these ranges. Moments travel to their new servers and those
  /// servers' partners, and `state` has the shard of the new range.
  void move_to(const std::vector<optim::Elements>& ranges, TrainingState& state);

  /// The name of the compression of pushes and pulls; empty: there is none.
  std::string compression() const { return compression_ ? compression_->in_use() : ""; }
  /// Collective, after meet(): see ServerCompression::round_done().
  std::optional<std::string> choose_compression(std::int64_t steps, double waited_seconds);

 private:
  bool is_synchronous() const { return recipe_.parallel.servers.mode == parallel::server::Mode::synchronous; }
  void update(const parallel::server::Apply& apply, const parallel::server::RangeGradient& gradient);
  /// The range of which this rank is the partner.
  optim::Elements partner_range() const { return copy_->shard.front(); }
  /// Allocates the copy of the range of which this rank is the partner.
  void allocate_copy();
  /// Collective. Servers get the moments of their ranges in `to`.
  void move_moments(const optim::Shards& to, TrainingState& state);
  /// Collective over the servers. Returns the moments of one arena for this server's range in `to`, from all servers
  /// that had some of them.
  tensor::Buffer moved(const tensor::Buffer& moments, const optim::Shards& to);
  /// Collective. Copies each range to its partner. Only the moments travel, because all ranks have the rest.
  void copy_to_partner(const TrainingState& state);
  void keep(int range, std::int64_t steps);
  /// Corrects the gradient in sums_ for what its parameters lacked: g + lambda g g (now - then) (Zheng et al.,
  /// "Asynchronous Stochastic Gradient Descent with Delay Compensation", ICML 2017).
  void compensate(std::span<const float> then, double scale);
  Totals& totals_of(std::int64_t step);

  const Recipe& recipe_;
  const tensor::ArenaLayout& layout_;
  comm::Communicator& world_;
  parallel::Cluster cluster_;
  optim::Shards shards_;  ///< shards of all ranks; one part
  std::int64_t microbatches_, global_batch_;
  parallel::server::StepParts parts_;
  double all_terms_;
  Step total_;
  std::unique_ptr<kernels::Backend> backend_;  ///< backend of the server's thread, in host memory
  std::optional<optim::Optimizer> optimizer_;  ///< optimizer of the server
  KeepRange keep_;                             ///< none: a loss costs all steps since the newest snapshot
  int partner_distance_;                       ///< see parallel::server::first_placement()
  int copied_range_ = -1;                      ///< number of the range of which this rank is the partner; -1: none
  std::optional<TrainingState> copy_;          ///< copy of that range
  optim::CutRanges compensated_;
  tensor::Buffer sums_;                           ///< sums of gradients in an arena, of which the range is used
  std::optional<ServerCompression> compression_;  ///< none: values are sent as they are
  std::optional<parallel::server::Runtime::Work> work_;

  // Members for a round, used by the server's thread:
  const TrainingState* state_ = nullptr;
  std::vector<Totals> totals_;

  std::unique_ptr<parallel::server::Runtime> runtime_;  ///< its thread uses the members above
};

}  // namespace distdl::train
