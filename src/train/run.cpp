// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <string_view>
#include <tuple>
#include <utility>

#include <fmt/ranges.h>

#include <distdl/base/activity.hpp>
#include <distdl/base/checked.hpp>
#include <distdl/base/clock.hpp>
#include <distdl/base/log.hpp>
#include <distdl/base/process.hpp>
#include <distdl/kernels/options.hpp>
#include <distdl/model/models.hpp>
#include <distdl/parallel/cluster.hpp>
#include <distdl/parallel/mesh.hpp>
#include <distdl/parallel/plan.hpp>
#include <distdl/train/balance/microbatch_mover.hpp>
#include <distdl/train/balance/range_mover.hpp>
#include <distdl/train/compute/evaluator.hpp>
#include <distdl/train/measure/performance.hpp>
#include <distdl/train/measure/recorder.hpp>
#include <distdl/train/memory.hpp>
#include <distdl/train/ranks/agreement.hpp>
#include <distdl/train/ranks/degrees.hpp>
#include <distdl/train/ranks/held_model.hpp>
#include <distdl/train/ranks/same_ranks.hpp>
#include <distdl/train/run.hpp>
#include <distdl/train/saves/run_saves.hpp>
#include <distdl/train/state/state.hpp>
#include <distdl/train/step/step.hpp>
#include <distdl/train/stop/end_of_job.hpp>
#include <distdl/train/stop/stop_decision.hpp>

namespace distdl::train {
namespace {
/// That of a device is not known.
std::uint64_t memory_for(const kernels::Backend& backend) {
  return backend.memory_is_host() ? memory_of_node() : std::numeric_limits<std::uint64_t>::max();
}

/// As a forecast calls it: one replica has the whole state, whatever the strategy.
std::string trained_product(const parallel::Options& options, const parallel::Degrees& degrees,
                            model::Network::Activations activations) {
  auto strategy = options.strategy;
  if (degrees.data == 1 && parallel::shards_moments(strategy)) strategy = parallel::Strategy::replicas;
  return parallel::product_name(degrees, strategy, activations == model::Network::Activations::recomputed);
}

/// One rank's part of a run: the loop of steps, evaluations and saves.
class Trainer {
 public:
  /// Not collective.
  Trainer(const Recipe& recipe, const Setting& setting, comm::Communicator& communicator, const parallel::Mesh& mesh,
          CommunicatorGroup& group, const std::optional<parallel::Cluster>& cluster, records::Observer& observer);
  std::string backend() const { return backend_->description(); }
  const std::string& digest() const { return sources_.training->digest(); }
  /// Collective, once, before that which follows.
  void know_performance();
  Outcome operator()();
  /// The node of each rank, to be named where an audit finds wrong bits; empty: its host name.
  void name_nodes(std::vector<std::string> nodes) { nodes_ = std::move(nodes); }
  /// Ranks with different backends may round differently: no audits, and the loss after a restore need not repeat.
  void allow_different_bits() {
    step_.auditor().disable();
    has_different_backends_ = true;
  }

 private:
  /// Throws ConfigError if this node has too little memory for it.
  HeldModel hold_what_fits(const std::optional<parallel::Cluster>& cluster) const;
  void start();
  void tell_resources();
  /// One optimizer step. Returns what the ranks agreed on.
  TrainingStep::Requests step(bool stop);
  /// Some steps without a meeting of the ranks between them, with a parameter server.
  TrainingStep::Requests round(bool stop);
  /// The most steps of the next round: up to what is due. Collective.
  std::int64_t round_length();
  /// Of a step that is done, which took so long.
  void tell_step(const TrainingStep::Result& done, Step step, double seconds,
                 const std::vector<std::int64_t>& staleness = {});
  /// False if a rank has to stop: then there is no result, and the next start evaluates.
  bool evaluate();
  Outcome train();
  /// Saves, and tells why the run stops. `reason`: this rank's.
  Outcome stop(std::optional<std::string> reason);
  /// Collective. `what`: "the loss".
  [[noreturn]] void diverged(const char* what, double loss);
  /// Collective. An audit found wrong bits.
  [[noreturn]] void corrupted(const AuditFailed& found);
  std::string node_of(Rank rank) const;
  /// Collective, after a restore.
  void read_recorded_loss();
  void check_resumed_loss(double loss);
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
  /// Throws StorageError if the same job cannot have come so far in the samples.
  void require_possible_position() const;
  /// Samples of one epoch.
  std::int64_t samples() const { return sources_.training->samples(); }
  double epochs_done() const { return static_cast<double>(state_.position) / static_cast<double>(samples()); }

  const Recipe& recipe_;
  const Setting& setting_;
  comm::Communicator& communicator_;
  const parallel::Mesh& mesh_;
  records::Observer& observer_;
  Tracing tracing_;  ///< before all that has threads
  std::unique_ptr<kernels::Backend> backend_;
  data::Sources sources_;
  parallel::MicrobatchPlan plan_;
  data::Sampler sampler_;
  Step total_;
  HeldModel held_;
  TrainingState state_;
  TrainingStep step_;
  Evaluator evaluator_;
  EndOfJob end_of_job_;
  Stopping stopping_;
  Checkpointing checkpointing_;
  Balancing balancing_;
  RangeBalancing range_balancing_;
  std::optional<Performance> performance_;
  std::optional<records::Evaluated> evaluated_;
  bool owes_last_save_ = false;          ///< all steps were done before, but the last one has no checkpoint
  std::optional<double> recorded_loss_;  ///< of the next step, by an earlier start
  bool has_different_backends_ = false;
  std::vector<std::string> nodes_;
};

Trainer::Trainer(const Recipe& recipe, const Setting& setting, comm::Communicator& communicator,
                 const parallel::Mesh& mesh, CommunicatorGroup& group, const std::optional<parallel::Cluster>& cluster,
                 records::Observer& observer)
    : recipe_(recipe),
      setting_(setting),
      communicator_(communicator),
      mesh_(mesh),
      observer_(observer),
      tracing_(setting.trace, communicator),
      backend_(kernels::make_backend(recipe.kernels)),
      sources_(data::open_sources(recipe.data, recipe.model.context, static_cast<std::uint64_t>(recipe.train.seed))),
      plan_(parallel::make_plan(recipe.parallel, mesh.degrees().data)),
      sampler_(static_cast<std::uint64_t>(recipe.train.seed), samples()),
      total_(steps_of(recipe, samples())),
      held_(hold_what_fits(cluster)),
      step_(recipe, mesh, *backend_, plan_, held_, total_, setting.devices_per_rank, cluster),
      evaluator_(*backend_, held_.model, held_.parts, step_.networks(), sources_, mesh, held_.activations),
      end_of_job_(communicator.rank() == Rank(0) ? setting.limits : slurm::JobLimits{},
                  recipe.train.stop_margin_seconds, setting.measured),
      stopping_(setting, end_of_job_, observer, communicator.rank() == Rank(0)),
      checkpointing_(recipe, setting, communicator, group, observer, *backend_, sources_, held_, mesh, state_,
                     end_of_job_),
      balancing_(recipe, setting, communicator, group.timeout(), observer, *backend_, step_),
      range_balancing_(recipe, setting, communicator, observer, held_.tensors.layout, step_.server()) {
  evaluator_.connect([this](model::Network& network, std::size_t) { held_.connect(network); });
  if (cluster && cluster->is_by_device) evaluator_.divide_among(cluster->workers);
  state_.in_host_memory = step_.has_state_in_host_memory();
  allocate(state_, *backend_, held_.tensors.layout, step_.state_arenas(), step_.shard(), step_.shards_parameters());
  state_.saves_shard = parallel::keeps_ranges(recipe.parallel);
  if (auto* const blocks = step_.parameter_blocks()) {
    evaluator_.evaluate_together([blocks](std::size_t stage) { blocks->join_evaluation(stage); });
    evaluator_.connect([blocks](model::Network& network, std::size_t stage) { blocks->serve(network, stage); });
  }
  end_of_job_.set_steps_per_evaluation(static_cast<double>(evaluator_.samples()) /
                                       static_cast<double>(plan_.global_batch()));
}

HeldModel Trainer::hold_what_fits(const std::optional<parallel::Cluster>& cluster) const {
  HeldModel held =
      hold(model_of(recipe_, *sources_.training), recipe_.parallel, mesh_, *backend_, setting_.stage_costs);
  const auto here = communicator_.ranks_on_host_of(communicator_.rank());
  const RanksOfMachine ranks{static_cast<int>(here.size()), mesh_.degrees(), here.front() == communicator_.rank(),
                             static_cast<int>(setting_.devices_per_rank)};
  const std::uint64_t memory = memory_for(*backend_);
  parallel::Options parallel = recipe_.parallel;
  if (cluster) {  // as many as there are
    parallel.servers = std::ssize(cluster->servers);
    parallel.workers = std::ssize(cluster->workers);
  }
  check_memory(held.model, held.tensors, parallel, recipe_.optim, ranks, memory,
               backend_->memory_is_host() ? limits_of_process() : ProcessLimits{});
  held.activations = activations_for(held.model, parallel, recipe_.optim, backend_->activation_type(), ranks, memory);
  return held;
}

void Trainer::know_performance() {
  performance_.emplace(model_of(recipe_, *sources_.training), step_, mesh_,
                       setting_.peak_flops ? setting_.peak_flops(backend_->description()) *
                                                 static_cast<double>(setting_.devices_per_rank)
                                           : 0);
}

void Trainer::tell_resources() {
  if (communicator_.rank() == Rank(0)) observer_.on(resources_of(state_, step_, communicator_));
}

void Trainer::start() {
  std::vector<std::string> layers;
  for (const auto& layer : held_.model.layers) layers.push_back(layer.name);
  layers.emplace_back("loss");
  tracing_.set_layers(std::move(layers));
  step_.allocate(state_);
  const auto initialize = [this](std::span<float> arena) {
    const auto discard = [&] { optim::discard_others(arena, state_.shard); };
    model::initialize(held_.tensors, static_cast<std::uint64_t>(recipe_.train.seed), arena,
                      state_.shards_parameters ? discard : std::function<void()>());
  };
  const StartValues start_values{initialize, plan_.global_batch()};
  enter_phase(RankPhase::restore);
  const auto resumed = checkpointing_.restore(start_values);
  if (resumed) require_possible_position();
  if (!resumed) begin_state(state_, *backend_, start_values);  // whatever a restore that failed has left behind
  if (!resumed) step_.flip(setting_.bit_flip);
  if (resumed) read_recorded_loss();
  if (!step_.auditor().is_enabled()) state_.audited.reset();
  // What was saved without audits is the best that there is.
  else if (resumed && !state_.audited)
    state_.audited = state_.step;
  if (state_.audited) checkpointing_.audited(*state_.audited);
  if (resumed) checkpointing_.restore_best();
  // A snapshot may be all that is left of the last step.
  owes_last_save_ = resumed && state_.step <= end() && is_done() && !checkpointing_.is_saved();
  const bool saves = !is_done() || owes_last_save_;
  if (saves) checkpointing_.check_room();
  checkpointing_.schedule_from_here();
  step_.share(state_);
  step_.load_parameters(state_.parameter_arena());
  give_back_freed_memory();  // first places of parameters, and what a restore read
  if (!is_done()) step_.start_reading(sources_, sampler_, state_);
  if (saves) checkpointing_.start(resumed.has_value());
  if (!is_done() && state_.saves_shard)
    step_.keep_ranges(state_, [this](const KeptRange& kept) { checkpointing_.keep(kept); });
  records::Started started{{}, total_, communicator_.size(), samples(), plan_.global_batch(), backend_->description()};
  if (resumed) {
    started.resumed_from = state_.step;
    started.resumed_source = *resumed;
  }
  started.has_mixed_backends = has_different_backends_;
  started.start = checkpointing_.start_number();
  started.compute = performance_->compute();
  started.product = trained_product(recipe_.parallel, mesh_.degrees(), held_.activations);
  show_step(state_.step);
  observer_.on(started);
}

TrainingStep::Requests Trainer::step(bool stop) {
  tracing_.before_step(Step(state_.step.value + 1));
  const TracedStep traced(Step(state_.step.value + 1));
  const Stopwatch watch;
  const bool save = communicator_.rank() == Rank(0) && save_is_wanted(Step(state_.step.value + 1));
  const auto done = step_(state_, {stop, save}, [this] { checkpointing_.await_copy(); });
  checkpointing_.fence();  // which the ranks agree on when nothing else is summed
  enter_phase(RankPhase::report);
  show_step(state_.step);
  set_log_step(state_.step);
  stopping_.look_for_suspension(checkpointing_.is_busy());
  end_of_job_.step_took(watch.seconds());
  if (!end_of_job_.is_disturbed()) checkpointing_.step_took(watch.seconds());
  if (done.audit_seconds) audited(Step(state_.step.value - 1), *done.audit_seconds);
  if (!std::isfinite(done.loss)) diverged("the loss", done.loss);
  check_resumed_loss(done.loss);
  tell_step(done, state_.step, watch.seconds());
  balancing_.step_done(state_, done, watch.seconds(), end_of_job_.is_disturbed());
  return done.agreed;
}

void Trainer::tell_step(const TrainingStep::Result& done, Step step, double seconds,
                        const std::vector<std::int64_t>& staleness) {
  const auto behind = static_cast<double>((state_.step.value - step.value) * plan_.global_batch());
  records::StepDone event{step,
                          epochs_done() - behind / static_cast<double>(samples()),
                          done.loss,
                          done.accuracy,
                          done.learning_rate,
                          static_cast<double>(plan_.global_batch()) / seconds,
                          done.waited_seconds,
                          done.norm,
                          done.loss_scale,
                          done.skipped,
                          done.sum_seconds,
                          done.sum_waited_seconds,
                          done.pipeline_seconds,
                          done.pipeline_waited_seconds,
                          done.pipeline_busiest_seconds,
                          done.compression};
  event.staleness = staleness;
  event.is_followed = step != state_.step;
  performance_->complete(event);
  observer_.on(event);
  if (done.compression_change)
    observer_.on(records::CompressionChosen{step, step_.compression(), *done.compression_change});
  if (performance_->is_due()) tell_resources();
}

std::int64_t Trainer::round_length() {
  const auto ends_after = [this](std::int64_t steps) {
    const Step step(state_.step.value + steps);
    const bool is_traced =
        setting_.trace && (setting_.trace->steps.has(step.value) || setting_.trace->steps.has(step.value + 1));
    return steps == recipe_.parallel.server_steps || step >= end() || evaluation_is_due(steps) || is_traced ||
           checkpointing_.saves_after(step);
  };
  std::int64_t steps = 1;
  while (!ends_after(steps)) ++steps;
  // The first rank alone knows when a save is due.
  communicator_.broadcast(comm::Vector(&steps, 1, comm::DataType::int64), Rank(0)).wait();
  return steps;
}

TrainingStep::Requests Trainer::round(bool stop) {
  tracing_.before_step(Step(state_.step.value + 1));
  const TracedStep traced(Step(state_.step.value + 1));
  const Stopwatch watch;
  const bool is_first = communicator_.rank() == Rank(0);
  TrainingStep::Requests mine{stop, false};
  const auto wants_end = [&] {
    mine.stop = mine.stop || stopping_.reason(next_step()).has_value();
    mine.save = mine.save || (is_first && setting_.save_requested && setting_.save_requested());
    return mine.stop || mine.save;
  };
  const auto requests = [&](Step end) {
    mine.save = mine.save || (is_first && checkpointing_.is_due(end));
    return mine;
  };
  const auto done = step_.round(state_, round_length(), {wants_end, requests, [this] { checkpointing_.await_copy(); }});
  checkpointing_.fence();
  enter_phase(RankPhase::report);
  show_step(state_.step);
  set_log_step(state_.step);
  stopping_.look_for_suspension(checkpointing_.is_busy());
  const double seconds = watch.seconds() / static_cast<double>(done.steps.size());
  Step step(state_.step.value - std::ssize(done.steps));
  for (const auto& each : done.steps) {
    step.value += 1;
    end_of_job_.step_took(seconds);
    if (!end_of_job_.is_disturbed()) checkpointing_.step_took(seconds);
    if (!std::isfinite(each.loss)) diverged("the loss", each.loss);
    check_resumed_loss(each.loss);
    tell_step(each, step, seconds, step == state_.step ? done.staleness : std::vector<std::int64_t>());
  }
  range_balancing_.round_done(state_, std::ssize(done.steps), seconds * static_cast<double>(done.steps.size()),
                              end_of_job_.is_disturbed());
  return done.agreed;
}

void Trainer::audited(Step step, double seconds) {
  checkpointing_.audited(step);
  observer_.on(records::Audited{step, seconds});
}

void Trainer::audit_end() {
  if (!step_.auditor().is_enabled()) return;
  const Stopwatch watch;
  step_.auditor().audit_state(state_);
  state_.audited = state_.step;
  audited(state_.step, watch.seconds());
}

std::string Trainer::node_of(Rank rank) const {
  const auto place = static_cast<std::size_t>(rank.value);
  return place < nodes_.size() && !nodes_[place].empty() ? nodes_[place] : communicator_.host(rank);
}

void Trainer::require_possible_position() const {
  if (checkpointing_.job_has_changed()) return;
  const Step most = std::max(total_, state_.step);
  if (state_.position <= checked_product(most.value, plan_.global_batch(), "the position in the samples")) return;
  throw StorageError(
      fmt::format(
          "the checkpoint of step {} has the position {} in the samples, which lies beyond the {} steps of this "
          "run: it is damaged, or parallel.microbatches was changed and changed back; then --partial continues",
          state_.step, state_.position, most),
      ExitCode::corrupt);
}

void Trainer::corrupted(const AuditFailed& found) {
  const auto& verdict = found.verdict();
  records::Corrupted event{found.step(), state_.audited, verdict.wrong, {}, verdict.is_certain, verdict.reason, {}};
  for (int rank : verdict.wrong)
    if (auto node = node_of(Rank(rank)); std::ranges::find(event.hosts, node) == event.hosts.end())
      event.hosts.push_back(std::move(node));
  const bool is_wrong = ends_as_wrong(verdict, event.hosts.size(), communicator_.rank().value);
  if (is_wrong) enter_phase(RankPhase::corrupted);
  const auto text = fmt::format(
      "silent corruption found by the audit of step {} on {}{}: {}. The next start continues from the newest "
      "checkpoint up to step {}, the last one that passed an audit",
      found.step(), verdict.is_certain ? "" : "one of ", fmt::join(event.hosts, ", "), verdict.reason,
      state_.audited.value_or(Step(0)));
  try {
    event.set_aside = checkpointing_.distrust(text);
  } catch (const Error& error) {  // also where a rank that has heard all ended before this one
    log(Severity::warning, "{}", error.what());
  }
  observer_.on(event);
  if (is_wrong) throw Error(ExitCode::corruption, text);
  throw CommError(text);
}

void Trainer::read_recorded_loss() {
  std::string mine;
  if (communicator_.rank() == Rank(0) && setting_.recorded_loss && recipe_.train.check_resumed_loss &&
      recipe_.kernels.deterministic && parallel::repeats_losses(recipe_.parallel) &&
      !checkpointing_.job_has_changed() && !has_different_backends_)
    if (const auto loss = setting_.recorded_loss(state_.step))
      mine.assign(reinterpret_cast<const char*>(&*loss), sizeof *loss);
  const auto all = communicator_.all_gather_strings(mine);
  if (all[0].size() != sizeof(double)) return;
  std::memcpy(&recorded_loss_.emplace(), all[0].data(), sizeof(double));
}

void Trainer::check_resumed_loss(double loss) {
  const auto recorded = std::exchange(recorded_loss_, std::nullopt);
  if (!recorded || std::bit_cast<std::uint64_t>(*recorded) == std::bit_cast<std::uint64_t>(loss)) return;
  checkpointing_.end();
  throw Error(
      ExitCode::irreproducible,
      fmt::format(
          "step {} gave the loss {:a} ({}) after the restore, but {:a} ({}) before: bits do not repeat. Likely causes: "
          "a node of this start or of the earlier one computes or stores wrong bits (train.audit_every finds which), "
          "the checkpoint was damaged in memory before it was saved, or distdl, a library or the type of the nodes has "
          "changed. {}. To accept it: --set train.check_resumed_loss=false",
          state_.step, loss, loss, *recorded, *recorded, checkpointing_.way_back()));
}

bool Trainer::evaluate() {
  if (evaluator_.samples() == 0) return true;
  const Stopwatch watch;
  enter_phase(RankPhase::evaluate);
  auto* const blocks = step_.parameter_blocks();
  float* const arena = state_.evaluation_arena();
  if (blocks != nullptr) blocks->begin_evaluation({arena, state_.parameters.bytes() / sizeof(float)});
  const auto found =
      evaluator_(step_.on_device(arena), communicator_, [this] { return stopping_.is_due(checkpointing_.is_busy()); });
  if (blocks != nullptr) blocks->end_evaluation();
  const float* const parameters = step_.on_device(state_.parameter_arena());
  for (auto* const network : step_.networks()) network->load_parameters(parameters);
  enter_phase(RankPhase::report);
  if (!found) return false;
  stopping_.look_for_suspension(checkpointing_.is_busy());
  end_of_job_.evaluation_took(watch.seconds());
  const double terms = std::max<double>(found->count, 1);
  records::Evaluated evaluated{state_.step, epochs_done(), found->loss / terms, found->correct / terms,
                               evaluator_.samples()};
  if (!std::isfinite(*evaluated.loss)) diverged("the validation loss", *evaluated.loss);
  if (compares_evaluations(recipe_.train)) {
    take_evaluation(state_.best, recipe_.train, evaluated);
    evaluated.best = state_.best->step;
  }
  evaluated_ = evaluated;
  observer_.on(evaluated);
  return true;
}

void Trainer::diverged(const char* what, double loss) {
  checkpointing_.end();
  throw ConfigError(fmt::format("{} became {} at step {}; lower optim.learning_rate or raise optim.warmup_steps{}. {}",
                                what, loss, state_.step,
                                backend_->activation_type() == tensor::DataType::float16
                                    ? ", or set kernels.precision = \"bf16\", because float16 ends at 65504"
                                    : "",
                                checkpointing_.way_back()));
}

bool Trainer::save_is_wanted(Step step) const {
  return (setting_.save_requested && setting_.save_requested()) || checkpointing_.is_due(step);
}

NextStep Trainer::next_step() const {
  return {evaluation_is_due(1) || (evaluator_.samples() > 0 && state_.step.value + 1 == end().value),
          checkpointing_.is_busy(Step(state_.step.value + 1))};
}

bool Trainer::evaluation_is_due(std::int64_t later) const {
  const auto every = recipe_.train.evaluate_every, every_steps = recipe_.train.evaluate_every_steps;
  const std::int64_t step = state_.step.value + later, position = state_.position + later * plan_.global_batch();
  if (step == 0 || evaluator_.samples() == 0) return false;
  if (every_steps > 0 && step % every_steps == 0) return true;
  return every > 0 && sampler_.epoch(position) / every != sampler_.epoch(position - plan_.global_batch()) / every;
}

Outcome Trainer::operator()() try { return train(); } catch (const AuditFailed& found) {
  corrupted(found);
} catch (const StorageError& error) {
  // A shortage has the same code and type.
  const bool is_finite = std::string_view(error.what()).find("is infinite or not a number") == std::string_view::npos;
  if (error.exit_code() != ExitCode::config || is_finite) throw;
  throw ConfigError(fmt::format("{}. {}", error.what(), checkpointing_.way_back()));  // not finite values, see Saver
}

Outcome Trainer::stop(std::optional<std::string> reason) {
  checkpointing_.save_last();
  tracing_.end();
  if (!reason) reason = stopping_.reason(next_step());  // another rank was quicker to know
  if (auto deadline = end_of_job_.deadline(next_step())) {
    deadline->reason = explain(*deadline);
    observer_.on(*deadline);
  }
  tell_resources();
  observer_.on(records::Stopped{state_.step, reason.value_or("another rank was asked to stop")});
  return Outcome::stopped;
}

bool Trainer::catch_up_on_evaluation() {
  if (is_done() || !evaluation_is_due()) return true;
  if (!evaluate()) return false;
  if (is_done() && checkpointing_.is_saved())
    checkpointing_.end();
  else if (is_done())
    owes_last_save_ = true;
  else if (has_just_become_best())
    checkpointing_.save_best();
  return true;
}

Outcome Trainer::train() {
  start();
  stopping_.look_for_suspension(checkpointing_.is_busy());
  if (!catch_up_on_evaluation()) return stop({});
  while (!is_done()) {
    if (setting_.between_steps) setting_.between_steps([this] { return checkpointing_.is_busy(); });
    auto reason = stopping_.reason(next_step());
    auto [must_end, worth_a_save] = step_.has_server() ? round(reason.has_value()) : step(reason.has_value());
    const bool last = state_.step == end();
    checkpointing_.tell_outcomes();
    stopping_.follow_deadline(next_step());
    if (must_end && !last) return stop(reason);
    if (last) audit_end();
    if ((last || evaluation_is_due()) && !evaluate()) return stop({});
    if (is_done() && !last) audit_end();
    if (is_done())
      checkpointing_.save_last();
    else if (has_just_become_best())
      checkpointing_.save_best();
    else
      checkpointing_.save_if_due(worth_a_save);
  }
  return finish();
}

std::string Trainer::early_end() const {
  if (state_.step >= total_) return "";
  if (state_.step >= end()) return fmt::format("train.end_at_step = {}", recipe_.train.end_at_step);
  return reason_of_early_end(*state_.best);
}

Outcome Trainer::finish() {
  if (!evaluated_ && !evaluate()) {  // all steps were done before, and are saved
    observer_.on(
        records::Stopped{state_.step, stopping_.reason(next_step()).value_or("another rank was asked to stop")});
    return Outcome::stopped;
  }
  if (owes_last_save_) checkpointing_.save_last();
  tracing_.end();
  tell_resources();
  records::Finished finished{state_.step, {}, {}, {}};
  if (evaluated_) std::tie(finished.loss, finished.accuracy) = std::tuple(evaluated_->loss, evaluated_->accuracy);
  finished.early = early_end();
  observer_.on(finished);
  return Outcome::finished;
}
}  // namespace

Outcome run(const Recipe& recipe, const Setting& setting, comm::Communicator& communicator,
            records::Observer& observer) {
  CommunicatorGroup group(communicator, recipe.checkpoint.timeout_seconds);
  parallel::Degrees degrees;
  agree(communicator, group.timeout(), [&] {
    check(recipe);
    check_devices(recipe, setting.devices_per_rank);
    require<InternalError>(recipe.parallel.strategy != parallel::Strategy::automatic, "{}",
                           "parallel.strategy = \"auto\" was not decided");
    degrees = degrees_for(recipe, communicator);
  });
  const parallel::Mesh mesh(communicator, degrees);
  const auto cluster = cluster_for(recipe, communicator, group.timeout());
  if (cluster && communicator.rank() == Rank(0))
    observer.on(records::ProductChosen{static_cast<int>(cluster->hosts.size()), "parameter_server",
                                       parallel::text_of(*cluster), cluster->servers, cluster->workers,
                                       cluster->hosts});
  std::optional<Trainer> trainer;
  agree(communicator, group.timeout(),
        [&] { trainer.emplace(recipe, setting, communicator, mesh, group, cluster, observer); });
  check_same_samples(communicator, trainer->digest());
  auto backends = communicator.all_gather_strings(trainer->backend());
  const bool is_mixed = std::ranges::adjacent_find(backends, std::not_equal_to<>()) != backends.end();
  if (cluster && cluster->is_by_device)  // servers update on the processor wherever they are
    for (const Rank rank : cluster->servers)
      backends[static_cast<std::size_t>(rank.value)] = backends[static_cast<std::size_t>(cluster->workers[0].value)];
  check_same_layouts(backends, mesh);
  if (communicator.rank().value == 0) warn_of_different_backends(backends, recipe.train.audit_every > 0);
  if (is_mixed) trainer->allow_different_bits();  // also with servers of another kind: the next start may have none
  if (recipe.train.audit_every > 0) trainer->name_nodes(communicator.all_gather_strings(setting.node));
  trainer->know_performance();
  return (*trainer)();
}

}  // namespace distdl::train
