// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <string_view>
#include <tuple>
#include <utility>

#include <distdl/base/activity.hpp>
#include <distdl/base/checked.hpp>
#include <distdl/base/clock.hpp>
#include <distdl/base/log.hpp>
#include <distdl/base/process.hpp>
#include <distdl/kernels/options.hpp>
#include <distdl/model/models.hpp>
#include <distdl/train/loop/corruption.hpp>
#include <distdl/train/loop/trainer.hpp>
#include <distdl/train/ranks/fitting_model.hpp>
#include <distdl/train/ways.hpp>

namespace distdl::train {
Trainer::Trainer(const Recipe& recipe, const Setting& setting, Host& host, comm::Communicator& communicator,
                 const parallel::Mesh& mesh, groups::CommunicatorGroup& group,
                 const std::optional<parallel::Cluster>& cluster, records::Observer& observer)
    : recipe_(recipe),
      setting_(setting),
      host_(host),
      communicator_(communicator),
      mesh_(mesh),
      observer_(observer),
      tracing_(setting.trace, communicator),
      backend_(kernels::make_backend(recipe.kernels)),
      sources_(data::open_sources(recipe.data, recipe.model.context, static_cast<std::uint64_t>(recipe.train.seed))),
      plan_(parallel::make_plan(recipe.parallel, mesh.degrees().data)),
      sampler_(static_cast<std::uint64_t>(recipe.train.seed), samples()),
      total_(steps_of(recipe, samples())),
      held_(hold_what_fits(recipe, setting, mesh, *backend_, *sources_.training, cluster)),
      engine_(way_of(recipe.parallel.strategy)
                  .make({recipe, setting, mesh, *backend_, plan_, held_, total_, cluster, group.timeout(), observer})),
      evaluator_(*backend_, held_.model, held_.parts, engine_->networks(), sources_, mesh, held_.activations),
      end_of_job_(communicator.rank() == Rank(0) ? setting.limits : slurm::JobLimits{},
                  recipe.train.stop_margin_seconds, setting.measured),
      stopping_(host, end_of_job_, observer, communicator.rank() == Rank(0)),
      checkpointing_(recipe, setting, communicator, group, observer, *backend_, sources_, held_, mesh, state_,
                     end_of_job_) {
  evaluator_.connect([this](model::Network& network, std::size_t) { held_.connect(network); });
  if (cluster && cluster->is_by_device) evaluator_.divide_among(cluster->workers);
  auto needs = engine_->needs();
  state_.in_host_memory = needs.in_host_memory;
  state_.saves_shard = needs.saves_shard;
  allocate(state_, *backend_, held_.tensors.layout, needs.arenas, std::move(needs.shard), needs.shards_parameters);
  if (auto* const blocks = engine_->parameter_blocks()) {
    evaluator_.evaluate_together([blocks](std::size_t stage) { blocks->join_evaluation(stage); });
    evaluator_.connect([blocks](model::Network& network, std::size_t stage) { blocks->serve(network, stage); });
  }
  end_of_job_.set_steps_per_evaluation(static_cast<double>(evaluator_.samples()) /
                                       static_cast<double>(plan_.global_batch()));
}

void Trainer::know_performance() {
  performance_.emplace(model_of(recipe_, *sources_.training), *engine_, mesh_,
                       host_.peak_flops(backend_->description()) * static_cast<double>(setting_.devices_per_rank));
}

void Trainer::tell_resources() {
  if (communicator_.rank() == Rank(0)) observer_.on(resources_of(state_, *engine_, communicator_));
}

void Trainer::start() {
  std::vector<std::string> layers;
  for (const auto& layer : held_.model.layers) layers.push_back(layer.name);
  layers.emplace_back("loss");
  tracing_.set_layers(std::move(layers));
  engine_->allocate(state_);
  const auto initialize = [this](std::span<float> arena) {
    const auto discard = [&] { optim::discard_others(arena, state_.shard); };
    model::initialize(held_.tensors, static_cast<std::uint64_t>(recipe_.train.seed), arena,
                      state_.shards_parameters ? discard : std::function<void()>());
  };
  const StartValues start_values{initialize, plan_.global_batch()};
  enter_phase(RankPhase::restore);
  const auto resumed = checkpointing_.restore(start_values);
  if (resumed && !checkpointing_.job_has_changed())
    require_possible_position(state_, std::max(total_, state_.step), plan_.global_batch());
  if (!resumed) begin_state(state_, *backend_, start_values);  // whatever a restore that failed has left behind
  if (!resumed) engine_->flip(setting_.hooks.bit_flip);
  if (resumed)
    resumed_loss_.read(recipe_, host_, communicator_, state_.step,
                       !checkpointing_.job_has_changed() && !has_different_backends_);
  if (!has_audits()) state_.audited.reset();
  // A state that was saved without audits counts as audited, because there is no better one.
  else if (resumed && !state_.audited)
    state_.audited = state_.step;
  if (state_.audited) checkpointing_.audited(*state_.audited);
  if (resumed) checkpointing_.restore_best();
  // A snapshot may be all that is left of the last step.
  owes_last_save_ = resumed && state_.step <= end() && is_done() && !checkpointing_.is_saved();
  const bool saves = !is_done() || owes_last_save_;
  if (saves) checkpointing_.check_room();
  checkpointing_.schedule_from_here();
  engine_->share(state_);
  engine_->load_parameters(state_.parameter_arena());
  give_back_freed_memory();  // first places of parameters, and what a restore read
  if (!is_done()) engine_->start_reading(sources_, sampler_, state_);
  if (saves) checkpointing_.start(resumed.has_value());
  if (!is_done() && state_.saves_shard)
    engine_->keep_ranges(state_, [this](const KeptRange& kept) { checkpointing_.keep(kept); });
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

StepRequests Trainer::advance(bool stop) {
  tracing_.before_step(Step(state_.step.value + 1));
  const TracedStep traced(Step(state_.step.value + 1));
  const Stopwatch watch;
  const bool is_first = communicator_.rank() == Rank(0);
  StepRequests mine{stop, false};
  const auto wants_end = [&] {
    mine.stop = mine.stop || stopping_.reason(next_step()).has_value();
    mine.save = mine.save || (is_first && host_.save_requested());
    return mine.stop || mine.save;
  };
  const auto requests = [&](Step end) {
    mine.save = mine.save || (is_first && save_is_wanted(end));
    return mine;
  };
  const auto most = engine_->round_steps();
  const auto done = engine_->advance(state_, most ? round_length(*most) : 1,
                                     {wants_end, requests, [this] { checkpointing_.await_copy(); }});
  checkpointing_.fence();  // which the ranks agree on when nothing else is summed
  enter_phase(RankPhase::report);
  show_step(state_.step);
  set_log_step(state_.step);
  stopping_.look_for_suspension(checkpointing_.is_busy());
  note_steps(done, watch.seconds());
  return done.agreed;
}

void Trainer::note_steps(const Engine::Advance& done, double seconds) {
  const double each_seconds = seconds / static_cast<double>(done.steps.size());
  Step step(state_.step.value - std::ssize(done.steps));
  for (const auto& each : done.steps) {
    step.value += 1;
    end_of_job_.step_took(each_seconds);
    if (!end_of_job_.is_disturbed()) checkpointing_.step_took(each_seconds);
    if (each.audit_seconds) audited(Step(step.value - 1), *each.audit_seconds);
    const double loss = each.record.loss.value();
    if (!std::isfinite(loss)) diverged("the loss", loss, step);
    resumed_loss_.check(step, loss, checkpointing_);
    tell_step(each, step, each_seconds);
  }
  engine_->balance(state_, done, seconds, end_of_job_.is_disturbed());
}

void Trainer::tell_step(const StepResult& done, Step step, double seconds) {
  const auto behind = static_cast<double>((state_.step.value - step.value) * plan_.global_batch());
  records::StepDone event = done.record;
  if (!model::tells_classes(held_.model)) event.accuracy.reset();
  event.step = step;
  event.epoch = epochs_done() - behind / static_cast<double>(samples());
  event.samples_per_s = static_cast<double>(plan_.global_batch()) / seconds;
  event.is_followed = step != state_.step;
  performance_->complete(event);
  observer_.on(event);
  if (done.compression_change)
    observer_.on(records::CompressionChosen{step, engine_->compression(), *done.compression_change});
  if (performance_->is_due()) tell_resources();
}

std::int64_t Trainer::round_length(std::int64_t most) {
  const auto ends_after = [this, most](std::int64_t steps) {
    const Step step(state_.step.value + steps);
    const bool is_traced =
        setting_.trace && (setting_.trace->steps.has(step.value) || setting_.trace->steps.has(step.value + 1));
    return steps == most || step >= end() || evaluation_is_due(steps) || is_traced || checkpointing_.saves_after(step);
  };
  std::int64_t steps = 1;
  while (!ends_after(steps)) ++steps;
  // The first rank alone knows when a save is due.
  communicator_.broadcast(comm::Vector(&steps, 1, comm::DataType::int64), Rank(0)).wait();
  return steps;
}

void Trainer::audited(Step step, double seconds) {
  checkpointing_.audited(step);
  observer_.on(records::Audited{step, seconds});
}

void Trainer::audit_end() {
  if (!has_audits()) return;
  const Stopwatch watch;
  engine_->auditor()->audit_state(state_);
  state_.audited = state_.step;
  audited(state_.step, watch.seconds());
}

bool Trainer::evaluate() {
  if (evaluator_.samples() == 0) return true;
  const Stopwatch watch;
  enter_phase(RankPhase::evaluate);
  auto* const blocks = engine_->parameter_blocks();
  float* const arena = state_.evaluation_arena();
  if (blocks != nullptr) blocks->begin_evaluation({arena, state_.parameters.bytes() / sizeof(float)});
  const auto found = evaluator_(engine_->on_device(arena), communicator_,
                                [this] { return stopping_.is_due(checkpointing_.is_busy()); });
  if (blocks != nullptr) blocks->end_evaluation();
  const float* const parameters = engine_->on_device(state_.parameter_arena());
  for (auto* const network : engine_->networks()) network->load_parameters(parameters);
  enter_phase(RankPhase::report);
  if (!found) return false;
  stopping_.look_for_suspension(checkpointing_.is_busy());
  end_of_job_.evaluation_took(watch.seconds());
  const double terms = std::max<double>(found->count, 1);
  records::Evaluated evaluated{state_.step, epochs_done(), found->loss / terms, found->correct / terms,
                               evaluator_.samples()};
  if (!model::tells_classes(held_.model)) evaluated.accuracy.reset();
  if (!std::isfinite(*evaluated.loss)) diverged("the validation loss", *evaluated.loss, state_.step);
  if (compares_evaluations(recipe_.train)) {
    take_evaluation(state_.best, recipe_.train, evaluated);
    evaluated.best = state_.best->step;
  }
  evaluated_ = evaluated;
  observer_.on(evaluated);
  return true;
}

void Trainer::diverged(const char* what, double loss, Step step) {
  checkpointing_.end();
  throw ConfigError(fmt::format("{} became {} at step {}; lower optim.learning_rate or raise optim.warmup_steps{}. {}",
                                what, loss, step,
                                backend_->activation_type() == tensor::DataType::float16
                                    ? ", or set kernels.precision = \"bf16\", because float16 ends at 65504"
                                    : "",
                                checkpointing_.way_back()));
}

bool Trainer::save_is_wanted(Step step) const {
  return host_.save_requested() || checkpointing_.is_due(step);
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
  end_corrupted(found, nodes_, state_, communicator_, checkpointing_, observer_);
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
    host_.between_steps([this] { return checkpointing_.is_busy(); });
    auto reason = stopping_.reason(next_step());
    auto [must_end, worth_a_save] = advance(reason.has_value());
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

}  // namespace distdl::train
