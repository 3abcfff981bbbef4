// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <distdl/data/sampler.hpp>
#include <distdl/data/source.hpp>
#include <distdl/kernels/backend.hpp>
#include <distdl/parallel/cluster.hpp>
#include <distdl/parallel/mesh.hpp>
#include <distdl/parallel/plan.hpp>
#include <distdl/train/audit/auditor.hpp>
#include <distdl/train/compute/evaluator.hpp>
#include <distdl/train/engine/engine.hpp>
#include <distdl/train/loop/resume_checks.hpp>
#include <distdl/train/measure/performance.hpp>
#include <distdl/train/measure/recorder.hpp>
#include <distdl/train/ranks/owned_model.hpp>
#include <distdl/train/run.hpp>
#include <distdl/train/saves/run_saves.hpp>
#include <distdl/train/state/state.hpp>
#include <distdl/train/stop/end_of_job.hpp>
#include <distdl/train/stop/stop_decision.hpp>

namespace distdl::train {

/// One rank's part of a run: the loop of steps, evaluations and saves.
class Trainer {
 public:
  /// Not collective.
  Trainer(const Recipe& recipe, const Setting& setting, Host& host, comm::Communicator& communicator,
          const parallel::Mesh& mesh, groups::CommunicatorGroup& group, const std::optional<parallel::Cluster>& cluster,
          records::Observer& observer);
  std::string backend() const { return backend_->description(); }
  const std::string& digest() const { return sources_.training->digest(); }
  /// Collective, once, before operator(). Exchanges how much the ranks compute, and how fast they could.
  void know_performance();
  Outcome operator()();
  /// The node of each rank, to be named where an audit finds wrong bits; empty: its host name.
  void name_nodes(std::vector<std::string> nodes) { nodes_ = std::move(nodes); }
  /// Ranks with different backends may round differently: no audits, and the loss after a restore need not repeat.
  void allow_different_bits() {
    if (auto* const auditor = engine_->auditor()) auditor->disable();
    has_different_backends_ = true;
  }

 private:
  void start();
  void tell_resources();
  /// Does one step, or a round of steps without synchronization between them. `stop`: this rank requests to stop.
  /// Returns the requests of all ranks together.
  StepRequests advance(bool stop);
  /// Collective. The most steps of the next round: up to what is due.
  std::int64_t round_length(std::int64_t most);
  /// Takes note of steps that took `seconds`.
  void note_steps(const Engine::Advance& done, double seconds);
  /// Reports a finished step, which took `seconds`.
  void tell_step(const StepResult& done, Step step, double seconds);
  /// False if a rank has to stop: then there is no result, and the next start evaluates.
  bool evaluate();
  Outcome train();
  bool has_audits() { return engine_->auditor() != nullptr && engine_->auditor()->is_enabled(); }
  /// Saves, and reports why the run stops. `reason`: this rank's reason.
  Outcome stop(std::optional<std::string> reason);
  /// Collective. `what`: "the loss".
  [[noreturn]] void diverged(const char* what, double loss, Step step);
  /// The state passed an audit before the last step, or after it.
  void audited(Step step, double seconds);
  /// Collective. Audits the state after the last step.
  void audit_end();
  bool save_is_wanted(Step step) const;
  NextStep next_step() const;
  /// Whether the model is to be evaluated after the last step, or so many later; a matter of its number alone.
  bool evaluation_is_due(std::int64_t later = 0) const;
  /// The last step, unless evaluations end the run before.
  Step end() const {
    const std::int64_t end = recipe_.train.end_at_step;
    return end > 0 ? std::min(total_, Step(end)) : total_;
  }
  /// Whether no step is left.
  bool is_done() const { return state_.step >= end() || ends_early(state_.best, recipe_.train); }
  /// Why it is done before the last step of all; empty: it is not.
  std::string early_end() const;
  bool has_just_become_best() const {
    return recipe_.train.keep_best && state_.best && state_.best->step == state_.step;
  }
  /// Collective. The evaluation that an earlier start had left. False if a rank has to stop.
  bool catch_up_on_evaluation();
  Outcome finish();
  /// Samples of one epoch.
  std::int64_t samples() const { return sources_.training->samples(); }
  double epochs_done() const { return static_cast<double>(state_.position) / static_cast<double>(samples()); }

  const Recipe& recipe_;
  const Setting& setting_;
  Host& host_;
  comm::Communicator& communicator_;
  const parallel::Mesh& mesh_;
  records::Observer& observer_;
  Tracing tracing_;  ///< before all members that have threads
  std::unique_ptr<kernels::Backend> backend_;
  data::Sources sources_;
  parallel::MicrobatchPlan plan_;
  data::Sampler sampler_;
  Step total_;
  OwnedModel held_;
  TrainingState state_;
  std::unique_ptr<Engine> engine_;
  Evaluator evaluator_;
  EndOfJob end_of_job_;
  Stopping stopping_;
  Checkpointing checkpointing_;
  std::optional<Performance> performance_;
  std::optional<records::Evaluated> evaluated_;
  bool owes_last_save_ = false;  ///< all steps were done before, but the last one has no checkpoint
  ResumedLoss resumed_loss_;
  bool has_different_backends_ = false;
  std::vector<std::string> nodes_;
};

}  // namespace distdl::train
