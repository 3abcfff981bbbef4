// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include <distdl/base/checked.hpp>
#include <distdl/base/clock.hpp>
#include <distdl/base/log.hpp>
#include <distdl/checkpoint/commit/agreement.hpp>
#include <distdl/data/prefetcher.hpp>
#include <distdl/kernels/check_options.hpp>
#include <distdl/model/models.hpp>
#include <distdl/model/network.hpp>
#include <distdl/optim/optimizer.hpp>
#include <distdl/optim/schedule.hpp>
#include <distdl/parallel/gradient_sum.hpp>
#include <distdl/parallel/plan.hpp>
#include <distdl/parallel/step_tail.hpp>
#include <distdl/train/agreement.hpp>
#include <distdl/train/checkpoint_schedule.hpp>
#include <distdl/train/evaluator.hpp>
#include <distdl/train/identity.hpp>
#include <distdl/train/memory.hpp>
#include <distdl/train/protection.hpp>
#include <distdl/train/run.hpp>
#include <distdl/train/state.hpp>
#include <distdl/train/stop.hpp>
#include <distdl/train/writer_bootstrap.hpp>

namespace distdl::train {
namespace {
using model::Network;

constexpr double kLongestMargin = 86400 * 7;

int ranks_here(const comm::Communicator& communicator) {
  return static_cast<int>(communicator.ranks_on_host_of(communicator.rank()).size());
}

/// One rank's part of a run.
class Trainer {
 public:
  /// Not collective.
  Trainer(const Recipe& recipe, const Setting& setting, comm::Communicator& communicator, CommunicatorGroup& group,
          Observer& observer);
  std::string backend() const { return backend_->description(); }
  const std::string& digest() const { return sources_.training->digest(); }
  Outcome operator()();

 private:
  /// What the ranks agreed on with their gradients.
  struct Agreed {
    bool stop = false;  ///< a rank was asked to
    bool save = false;  ///< rank 0 finds it worth it
  };
  void start();
  /// Whatever a restore that failed has left behind.
  void begin_afresh(const StartValues& values);
  /// One optimizer step.
  Agreed step(bool stop);
  void evaluate();
  /// Collective: from now on saves go on beside training. A state that was resumed gets its copies in other nodes'
  /// memory at once: those it had may be lost.
  void start_saver(bool resumed);
  /// Collective. Nothing is committed after a data set was changed on the disk of any rank.
  void require_unchanged_data();
  /// Collective. The saves before are of better times.
  void let_saves_end();
  /// False if the save before is still under way.
  bool begin_save(const checkpoint::Destination& destination);
  /// At the end, or before a stop: returns when it is committed.
  void save_last();
  /// Where a failure costs nothing yet: the next interval tries again. A checkpoint does not wait that long for a mere
  /// snapshot: it is tried again after each step, and meanwhile no other snapshot begins.
  void save_on_the_way(const checkpoint::Destination& destination);
  /// Where this rank runs.
  checkpoint::Place place() const { return {communicator_.host(communicator_.rank()), setting_.failure_domain}; }
  void tell(const checkpoint::SaveOutcome& outcome);
  /// Tells how saves ended meanwhile, and learns from them how often to save.
  void tell_outcomes();
  Outcome train();
  /// Collective. Where the next start goes on, and how to make it begin before that.
  std::string way_back();
  /// Collective. `what`: "the loss".
  [[noreturn]] void diverged(const char* what, double loss);
  std::optional<std::string> reason_to_stop();
  /// Whether the model is to be evaluated after the last step; a matter of its number alone.
  bool evaluation_is_due() const;
  /// Samples of one epoch.
  std::int64_t samples() const { return sources_.training->samples(); }
  double epochs_done() const { return static_cast<double>(state_.position) / static_cast<double>(samples()); }
  /// Begins to read this rank's samples ahead.
  void start_reading();

  const Recipe& recipe_;
  const Setting& setting_;
  comm::Communicator& communicator_;
  CommunicatorGroup& group_;
  Observer& observer_;
  std::unique_ptr<kernels::Backend> backend_;
  data::Sources sources_;
  parallel::Plan plan_;
  data::Sampler sampler_;
  Step total_;
  model::Description model_;
  model::ModelTensors tensors_;
  Network network_;
  parallel::GradientSum sum_;
  parallel::StepTail tail_;
  optim::Optimizer optimizer_;
  Evaluator evaluator_;
  checkpoint::Store store_;
  StateCheckpointer checkpointer_;
  CheckpointSchedule checkpoint_schedule_;
  WriterBootstrap writer_bootstrap_;
  EndOfJob end_of_job_;
  TrainingState state_;
  std::optional<data::Prefetcher> reader_;  // while there are steps to do
  std::optional<checkpoint::Saver> saver_;  // while there are steps to do
  checkpoint::Destination under_way_;       // of the save that began last
  bool owes_checkpoint_ = false;            // one was due while a mere snapshot was under way
  std::optional<Evaluated> evaluated_;
};

Trainer::Trainer(const Recipe& recipe, const Setting& setting, comm::Communicator& communicator,
                 CommunicatorGroup& group, Observer& observer)
    : recipe_(recipe),
      setting_(setting),
      communicator_(communicator),
      group_(group),
      observer_(observer),
      backend_(kernels::make_backend(recipe.kernels)),
      sources_(data::open_sources(recipe.data, recipe.model.context, static_cast<std::uint64_t>(recipe.train.seed))),
      plan_(parallel::make_plan(recipe.parallel, communicator.size())),
      sampler_(static_cast<std::uint64_t>(recipe.train.seed), samples()),
      total_(steps_of(recipe, samples())),
      model_(model::describe_model(recipe.model, sources_.training->shape(), sources_.training->classes())),
      tensors_(backend_->memory_is_host()
                   ? tensors_that_fit(model_, recipe.parallel, recipe.optim, ranks_here(communicator), memory_of_node())
                   : model::tensors_of(model_)),
      network_(*backend_, model_, tensors_, plan_.microbatch_size),
      sum_(*backend_, communicator, plan_, network_.gradient_count()),
      tail_(*backend_, sum_, tensors_.layout.size()),
      optimizer_(recipe.optim, tensors_.layout, *backend_),
      evaluator_(*backend_, model_, tensors_, network_, sources_),
      store_(setting.checkpoints, recipe.checkpoint, setting.files ? *setting.files : checkpoint::real_file_system()),
      checkpointer_(*backend_, communicator, group_, store_, tensors_, identity_of(recipe, *sources_.training)),
      checkpoint_schedule_(recipe.checkpoint, setting.failures),
      writer_bootstrap_(communicator.rank(), communicator.size(), setting.comm, group.timeout()),
      end_of_job_(setting.end_of_job, recipe.train.stop_margin_seconds) {
  allocate(state_, *backend_, tensors_.layout, optimizer_.state());
}

void Trainer::start() {
  sum_.allocate();
  store_.take(group_, setting_.owner, setting_.snapshots);
  StartValues start_values{[this](std::span<float> arena) {
                             model::initialize(tensors_, static_cast<std::uint64_t>(recipe_.train.seed), arena);
                           },
                           plan_.global_batch()};
  std::optional<checkpoint::Levels> levels;
  if (auto setup = levels_setup(store_, place())) levels.emplace(group_, store_.files(), *std::move(setup));
  auto resumed = checkpointer_.restore(state_, levels ? &*levels : nullptr,
                                       recipe_.checkpoint.partial ? &start_values : nullptr, setting_.resume_below);
  levels.reset();
  if (!resumed) begin_afresh(start_values);
  if (state_.step < total_) store_.check_room(group_, state_.bytes());
  checkpoint_schedule_.tried(state_.step);
  if (checkpoint_schedule_.automatic() && communicator_.rank() == Rank(0))
    log(Severity::info, "checkpoint.every = \"auto\": {}", checkpoint_schedule_.plan());
  network_.load_parameters(state_.parameter_arena());
  if (state_.step < total_) start_reading();
  if (state_.step < total_) start_saver(resumed.has_value());
  Started started{{}, total_, communicator_.size(), samples(), plan_.global_batch(), backend_->description()};
  if (resumed) {
    started.resumed_from = state_.step;
    started.resumed_source = *resumed;
  }
  observer_.on(started);
}

void Trainer::start_reading() {
  const auto range = plan_.of(communicator_.rank());
  const std::int64_t start = state_.position, step = plan_.global_batch(), size = plan_.microbatch_size;
  // From one of this rank's microbatches to the next, and from its last one to its first one of the next step.
  const auto next = [=](std::int64_t position) {
    const std::int64_t within = (position - start) % step;
    if (within / size + 1 < range.first + range.count) return position + size;
    return position - within + step + range.first * size;
  };
  reader_.emplace(*sources_.training, sampler_, size, next);
}

void Trainer::begin_afresh(const StartValues& values) {
  tensor::Buffer start = tensor::allocate_host(state_.parameters.bytes());
  values.fill(start.as<float>());
  backend_->copy_from_host(state_.parameters.data(), start.data(), start.bytes());
  for (const auto& [what, memory] : state_.optimizer)
    if (what.kind == optim::StateArena::Kind::average)
      backend_->copy_from_host(memory.data(), start.data(), start.bytes());
    else
      backend_->fill(static_cast<float*>(memory.data()), tensors_.layout.size(), 0.0f);
  state_.step = Step(0);
  state_.position = state_.updates = 0;
  state_.loss_scale = LossScale::start(backend_->activation_type());
}

Trainer::Agreed Trainer::step(bool stop) {
  Stopwatch watch;
  auto range = plan_.of(communicator_.rank());
  const double waited = reader_->waited_seconds();
  const auto all_terms = static_cast<double>(plan_.global_batch() * network_.terms());
  const double loss_scale = state_.loss_scale.value();
  const auto scale = static_cast<float>(loss_scale / all_terms);
  for (int m = range.first; m < range.first + range.count; ++m) {
    const data::Batch& batch = reader_->at(state_.position + m * plan_.microbatch_size);
    network_.set_batch(batch.samples(), batch.labels.data());
    backend_->set_rng_key({static_cast<std::uint64_t>(recipe_.train.seed),
                           static_cast<std::uint64_t>(state_.step.value * plan_.microbatches + m)});
    network_.forward_backward(sum_.slot(), scale);
    sum_.add();
  }
  if (stop) tail_.request_stop();
  if (communicator_.rank() == Rank(0) && (owes_checkpoint_ || checkpoint_schedule_.due(Step(state_.step.value + 1))))
    tail_.request_save();
  const float* gradients = sum_.finish();
  const auto sums = tail_.read(gradients);
  double rate = optim::learning_rate(recipe_.optim, state_.step, total_, plan_.global_batch());
  saver_->fence();
  const bool scaled = backend_->activation_type() == tensor::DataType::float16;
  const bool finite = !scaled || optimizer_.is_finite(gradients);
  std::optional<double> norm;
  if (finite) {
    norm = optimizer_.prepare(
        gradients, {rate, state_.step.value, state_.updates, plan_.microbatches, all_terms / sums.terms / loss_scale});
    network_.change_parameters([this, gradients] { optimizer_.apply(state_.arenas(gradients)); });
    state_.updates += 1;
  }
  if (scaled) state_.loss_scale.step_done(finite);
  state_.step.value += 1;
  state_.position += plan_.global_batch();
  set_log_step(state_.step);
  end_of_job_.step_took(watch.seconds());
  checkpoint_schedule_.step_took(watch.seconds());
  auto batch = static_cast<double>(plan_.global_batch());
  const double loss = sums.loss / sums.terms;
  if (!std::isfinite(loss)) diverged("the loss", loss);
  observer_.on(StepDone{state_.step, epochs_done(), loss, sums.correct / sums.terms, rate, batch / watch.seconds(),
                        reader_->waited_seconds() - waited, norm, scaled ? std::optional(loss_scale) : std::nullopt,
                        !finite});
  return {sums.stop, sums.save};
}

void Trainer::evaluate() {
  if (evaluator_.samples() == 0) return;
  auto totals = evaluator_(state_.evaluation_arena(), communicator_);
  network_.load_parameters(state_.parameter_arena());
  const double terms = std::max<double>(totals.count, 1);
  const Evaluated evaluated{state_.step, epochs_done(), totals.loss / terms, totals.correct / terms,
                            evaluator_.samples()};
  if (!std::isfinite(evaluated.loss)) diverged("the validation loss", evaluated.loss);
  evaluated_ = evaluated;
  observer_.on(evaluated);
}

void Trainer::start_saver(bool resumed) {
  auto levels = levels_setup(store_, place());
  checkpoint::Saver::Setup setup{run_name(store_), true, levels.has_value(), levels};
  saver_.emplace(
      store_, group_, [this] { return writer_bootstrap_.connect(); }, setup);
  if (recipe_.checkpoint.mode != "sync") writer_bootstrap_.exchange_addresses(communicator_);
  const auto left = levels || communicator_.rank() != Rank(0) ? std::nullopt : step_left_in_memory(store_, Rank(0));
  if (left && *left > state_.step)
    log(Severity::warning,
        "the run goes on from step {}; the snapshots of step {} in the nodes' memory are removed, since the job file "
        "asks for none (checkpoint.memory_every and the like)",
        state_.step, *left);
  if (!levels) group_.all_gather("");  // the first rank has looked: each one sweeps the buffers of all on its node
  auto part = checkpointer_.part_of(state_);
  saver_->prepare(part.slices, part.state);
  checkpoint::Protection elsewhere{recipe_.checkpoint.partner_every > 0, recipe_.checkpoint.parity_every > 0};
  if (resumed && (elsewhere.partner || elsewhere.parity)) begin_save({false, elsewhere});
}

void Trainer::require_unchanged_data() try {
  checkpoint::agree_in_step(group_, fmt::format("save step {}", state_.step), [this] {
    sources_.require_unchanged();
    return std::string();
  });
} catch (const StorageError& error) {
  if (error.exit_code() != ExitCode::storage) let_saves_end();
  throw;
}

bool Trainer::begin_save(const checkpoint::Destination& destination) {
  if (destination.file_system) require_unchanged_data();
  auto part = checkpointer_.part_of(state_);
  if (!saver_->save(state_.step, part.slices, part.state, destination)) return false;
  under_way_ = destination;
  return true;
}

void Trainer::save_last() {
  require_unchanged_data();
  auto part = checkpointer_.part_of(state_);
  saver_->save_and_wait(state_.step, part.slices, part.state);
  for (const auto& outcome : saver_->outcomes()) tell(outcome);
  saver_->close();
}

void Trainer::save_on_the_way(const checkpoint::Destination& destination) try {
  if (destination.file_system) checkpoint_schedule_.tried(state_.step);
  const bool owed = std::exchange(owes_checkpoint_, false);
  if (begin_save(destination)) return;
  owes_checkpoint_ = destination.file_system && !under_way_.file_system;
  if (!owed) observer_.on(SaveSkipped{state_.step, saver_->skipped()});
} catch (const StorageError& error) {
  if (error.exit_code() != ExitCode::storage) throw;  // another run owns the folder, or a mistake of ours
  observer_.on(SaveFailed{state_.step, error.what()});
  if (communicator_.rank() == Rank(0))
    log(Severity::error, "{}; training goes on, the checkpoint before is kept", error.what());
}

void Trainer::tell(const checkpoint::SaveOutcome& outcome) {
  const double seconds = outcome.durable_seconds;
  if (!outcome.unkept.empty()) observer_.on(SnapshotFailed{outcome.step, outcome.unkept});
  if (!outcome.file_system) {
    end_of_job_.snapshot_took(seconds);
    if (!outcome.error.empty()) return observer_.on(SnapshotFailed{outcome.step, outcome.error});
    if (outcome.unkept.empty()) observer_.on(SnapshotKept{outcome.step, seconds, outcome.stall_seconds});
    return;
  }
  end_of_job_.save_took(seconds);
  if (outcome.error.empty())
    observer_.on(CheckpointSaved{outcome.step, outcome.bytes, seconds, outcome.stall_seconds});
  else
    observer_.on(SaveFailed{outcome.step, outcome.error});
}

void Trainer::tell_outcomes() {
  for (const auto& outcome : saver_->outcomes()) {
    tell(outcome);
    if (!outcome.file_system || !outcome.error.empty()) continue;
    if (checkpoint_schedule_.saved(outcome.stall_seconds, outcome.durable_seconds) && communicator_.rank() == Rank(0))
      log(Severity::info, "from now on a checkpoint every {} steps: {}", checkpoint_schedule_.steps(),
          checkpoint_schedule_.reason());
  }
}

void Trainer::let_saves_end() try {
  if (!saver_) return;
  saver_->wait();
  tell_outcomes();
  saver_->close();
} catch (const StorageError&) {  // it was logged, and this run ends anyhow
}

void Trainer::diverged(const char* what, double loss) {
  let_saves_end();
  throw ConfigError(fmt::format("{} became {} at step {}; lower optim.learning_rate or raise optim.warmup_steps{}. {}",
                                what, loss, state_.step,
                                backend_->activation_type() == tensor::DataType::float16
                                    ? ", or take kernels.precision = \"bf16\", since float16 ends at 65504"
                                    : "",
                                way_back()));
}

std::string Trainer::way_back() {
  const auto newest = store_.newest(group_);
  if (!newest) return "There is no checkpoint: the next start begins afresh";
  return fmt::format(
      "The next start goes on from step {}; if it diverges again, remove the folder \"{}\": then it goes on from the "
      "checkpoint before",
      newest->step, newest->folder.string());
}

std::optional<std::string> Trainer::reason_to_stop() {
  if (setting_.stop_requested)
    if (auto reason = setting_.stop_requested()) return reason;
  const Step next(state_.step.value + 1);
  const bool saving =
      saver_->is_busy() ||
      destination_of(recipe_.checkpoint, next, owes_checkpoint_ || checkpoint_schedule_.due(next)).has_value();
  return end_of_job_.poll(std::chrono::system_clock::now(), saving);
}

bool Trainer::evaluation_is_due() const {
  const auto every = recipe_.train.evaluate_every, every_steps = recipe_.train.evaluate_every_steps;
  if (state_.step == Step(0)) return false;
  if (every_steps > 0 && state_.step.value % every_steps == 0) return true;
  return every > 0 &&
         sampler_.epoch(state_.position) / every != sampler_.epoch(state_.position - plan_.global_batch()) / every;
}

Outcome Trainer::operator()() try { return train(); } catch (const StorageError& error) {
  if (error.exit_code() != ExitCode::config) throw;
  throw ConfigError(fmt::format("{}. {}", error.what(), way_back()));  // values that are not finite, see Saver
}

Outcome Trainer::train() {
  start();
  if (state_.step < total_ && evaluation_is_due()) evaluate();  // a start that had to stop here left it to this one
  while (state_.step < total_) {
    auto reason = reason_to_stop();
    auto [stop, worth_a_save] = step(reason.has_value());
    bool last = state_.step == total_;
    tell_outcomes();
    if (last || (evaluation_is_due() && !stop)) evaluate();
    if (last || stop)
      save_last();
    else if (auto destination = destination_of(recipe_.checkpoint, state_.step, worth_a_save))
      save_on_the_way(*destination);
    if (stop && !last) {
      if (!reason) reason = reason_to_stop();  // another rank was quicker to know
      observer_.on(Stopped{state_.step, reason.value_or("another rank was asked to stop")});
      return Outcome::stopped;
    }
  }
  if (!evaluated_) evaluate();
  Finished finished{state_.step, {}, {}};
  if (evaluated_) std::tie(finished.loss, finished.accuracy) = std::tuple(evaluated_->loss, evaluated_->accuracy);
  observer_.on(finished);
  return Outcome::finished;
}

/// A file of one name may be another one on another node, or have been replaced while the ranks started.
void check_same_samples(comm::Communicator& communicator, const std::string& digest) {
  const auto digests = communicator.all_gather_strings(digest);
  for (std::size_t r = 1; r < digests.size(); ++r)
    if (digests[r] != digests[0])
      throw StorageError(
          fmt::format("rank {} ({}) reads a data set with the digest {}, rank 0 ({}) one with {}: data.train must be "
                      "the same file on all nodes",
                      r, communicator.host(Rank(static_cast<int>(r))), digests[r], communicator.host(Rank(0)),
                      digests[0]),
          ExitCode::incompatible);
}

/// Rounding differs between libraries, instruction sets and GPUs: then who computes what does matter.
void warn_of_different_backends(const std::vector<std::string>& backends) {
  for (std::size_t r = 1; r < backends.size(); ++r)
    if (backends[r] != backends[0])
      return log(Severity::warning,
                 "rank {} computes with \"{}\", rank 0 with \"{}\": the result will depend on the number of ranks; "
                 "kernels.backend and equal nodes avoid that",
                 r, backends[r], backends[0]);
}
}  // namespace

void check(const Options& options) {
  require(options.epochs >= 1, "train.epochs is {}, but must be at least 1", options.epochs);
  require(options.steps >= 0, "train.steps is {}, but must not be negative", options.steps);
  require(options.evaluate_every_steps >= 0, "train.evaluate_every_steps is {}, but must not be negative",
          options.evaluate_every_steps);
  require(options.evaluate_every >= 0, "train.evaluate_every is {}, but must not be negative", options.evaluate_every);
  require(options.stop_margin_seconds >= 0 && options.stop_margin_seconds <= kLongestMargin,
          "train.stop_margin_seconds is {}, but must be between 0 and {}", options.stop_margin_seconds, kLongestMargin);
}

void check(const Recipe& recipe) {
  data::check(recipe.data);
  model::check(recipe.model);
  parallel::make_plan(recipe.parallel, 1);
  optim::check(recipe.optim);
  check(recipe.train);
  kernels::check(recipe.kernels);
  checkpoint::check(recipe.checkpoint);
}

Step steps_of(const Recipe& recipe, std::int64_t samples) {
  const std::int64_t global_batch = parallel::make_plan(recipe.parallel, 1).global_batch();
  std::int64_t steps = recipe.train.steps;
  if (steps == 0) {
    const auto seen =
        checked_product(recipe.train.epochs, samples, "what train.epochs asks for, epochs times samples,");
    steps = seen / global_batch + (seen % global_batch > 0);
  }
  // Positions in the stream of samples must be numbers too, and a few steps beyond are read ahead.
  constexpr std::int64_t kAhead = 16;
  checked_product(checked_sum(steps, kAhead, "the number of steps"), global_batch,
                  "the number of samples of all steps");
  return Step(steps);
}

Outcome run(const Recipe& recipe, const Setting& setting, comm::Communicator& communicator, Observer& observer) {
  CommunicatorGroup group(communicator, recipe.checkpoint.timeout_seconds);
  std::optional<Trainer> trainer;
  agree(communicator, group.timeout(), [&] {
    check(recipe);
    trainer.emplace(recipe, setting, communicator, group, observer);
  });
  check_same_samples(communicator, trainer->digest());
  auto backends = communicator.all_gather_strings(trainer->backend());
  if (communicator.rank().value == 0) warn_of_different_backends(backends);
  return (*trainer)();
}

}  // namespace distdl::train
