// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <cstring>
#include <span>

#include <fmt/ranges.h>

#include <distdl/base/checked.hpp>
#include <distdl/base/clock.hpp>
#include <distdl/base/log.hpp>
#include <distdl/checkpoint/commit/finite.hpp>
#include <distdl/data/packed_text.hpp>
#include <distdl/optim/shards.hpp>
#include <distdl/train/ranks/agreement.hpp>
#include <distdl/train/state/group_state.hpp>
#include <distdl/train/state/identity.hpp>
#include <distdl/train/state/residuals.hpp>
#include <distdl/train/state/state.hpp>

namespace distdl::train {
namespace {
std::int64_t number(const checkpoint::State& state, const std::string& key) {
  auto found = state.find(key);
  require<StorageError>(found != state.end(), "the checkpoint has no entry \"{}\" in its state", key);
  std::int64_t value = 0;
  const auto& text = found->second;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  require<StorageError>(error == std::errc{} && end == text.data() + text.size(),
                        "the checkpoint's \"{}\" is \"{}\", not a number", key, text);
  return value;
}

bool is_elsewhere(const checkpoint::Target& target) {
  return target.bytes == nullptr;
}

[[noreturn]] void refuse(const checkpoint::Summary& found, const checkpoint::Fit& fit) {
  throw StorageError(
      fmt::format("checkpoint \"{}\" does not fit this model: {}", found.folder.string(), checkpoint::problem_of(fit)),
      ExitCode::incompatible);
}
}  // namespace

void StateCheckpointer::check_optimizer(const checkpoint::State& saved, bool partial) const {
  const auto value = [](const auto& map, const char* key) {
    auto found = map.find(key);
    return found == map.end() ? std::string() : found->second;
  };
  std::string theirs = value(saved, "optim.name");
  if (theirs.empty() && saved.contains("optim.momentum")) theirs = "sgd";  // there was no other
  const std::string mine = value(identity_, "optim.name");
  if (partial || theirs.empty() || mine.empty() || theirs == mine) return;
  throw StorageError(
      fmt::format(
          "the checkpoint was trained with optim.name = \"{}\", but the job file says \"{}\", which cannot continue "
          "from its moments; --partial (checkpoint.partial = true) loads the rest and initializes missing "
          "tensors; or use \"{}\" again, or another run.dir for a new run",
          theirs, mine, theirs),
      ExitCode::incompatible);
}

void StateCheckpointer::check_identity(const checkpoint::State& told, bool partial) {
  check_optimizer(told, partial);
  checkpoint::State saved = told;
  Identity identity = identity_;
  for (auto* all : {&saved, &identity}) all->insert(usual_properties().begin(), usual_properties().end());
  const auto backend = saved.find("backend");
  job_has_changed_ = partial || backend == saved.end() || backend->second != backend_description_;
  const bool is_imported = !saved.contains("optim.name");  // from weights, which say nothing of a training
  std::vector<std::string> untold;
  for (const auto& [key, mine] : identity) {
    if (key == data::kTokenizerState) continue;  // the numbers of the tokens are compared by the digest
    auto found = saved.find(key);
    if (found == saved.end()) untold.push_back(key);
    job_has_changed_ = job_has_changed_ || found == saved.end() || found->second != mine;
    if (found == saved.end() || found->second == mine) continue;
    if (is_imported && key == "data.classes") continue;  // of the file's last layer; the model's tensors are compared
    if (key == "data.samples" || key == "data.classes" || (key == "data.digest" && !partial))
      throw StorageError(
          fmt::format("the checkpoint was trained with {} = {}, but the job file's data set has {}; use the same "
                      "data set, or another run.dir for a new run",
                      key, found->second, mine),
          ExitCode::incompatible);
    if (communicator_.rank().value == 0)
      log(Severity::warning, "resuming with {} = {}, but the checkpoint was written with {}", key, mine, found->second);
  }
  if (communicator_.rank() != Rank(0)) return;
  if (!untold.empty() && !is_imported)
    log(Severity::warning,
        "the checkpoint was written by an older distdl and does not contain {}: whether the run continues "
        "with the same values is unknown",
        fmt::join(untold, ", "));
  if (backend != saved.end() && backend->second != backend_description_)
    log(Severity::warning,
        "resuming with \"{}\", but the checkpoint was written with \"{}\": results round differently",
        backend_description_, backend->second);
}

namespace {
void tell_what_is_left_aside(Step newest_snapshot, const std::optional<checkpoint::Summary>& found) {
  if (newest_snapshot <= (found ? found->step : Step(0))) return;
  log(Severity::warning, "the run continues from {}; the snapshots of step {} are removed",
      found ? fmt::format("the checkpoint of step {}", found->step) : "the start", newest_snapshot);
}
}  // namespace

std::optional<std::string> StateCheckpointer::restore(TrainingState& state, checkpoint::Levels* levels,
                                                      const StartValues* fallback, std::optional<Step> below) {
  auto snapshots = levels ? levels->find() : std::nullopt;
  const Step newest_snapshot = snapshots ? snapshots->step : Step(0);
  if (snapshots && !counts(*snapshots, below)) snapshots.reset();
  const auto newest = snapshots ? store_.newest(group_, below) : std::nullopt;
  // Where nothing else is left, a model that does not fit is rather a mistake.
  const auto from_snapshots = [&] { return restore(state, *levels, *snapshots, newest ? fallback : nullptr); };
  if (snapshots && (!newest || is_as_new_as(*snapshots, *newest))) {
    if (auto source = from_snapshots()) return source;
    snapshots.reset();
  }
  const auto read_all = [&](const checkpoint::Summary& found) {
    check_identity(found.state, fallback != nullptr);
    read(found, state, fallback);
  };
  // Where snapshots may turn out to be as new, or only a part is to be read, it is verified before.
  const bool at_once = !snapshots && !fallback;
  auto found = at_once ? newest_valid(below, read_all) : newest_valid(below);
  if (snapshots && (!found || is_as_new_as(*snapshots, *found)))
    if (auto source = from_snapshots()) return source;
  if (found && !at_once) agree(communicator_, group_.timeout(), [&] { read_all(*found); });
  if (communicator_.rank().value == 0) tell_what_is_left_aside(newest_snapshot, found);
  if (levels) levels->keep_only(std::nullopt);
  return found ? std::optional<std::string>("the file system") : std::nullopt;
}

/// Whether it is not left aside on purpose.
bool StateCheckpointer::counts(const checkpoint::RestorePlan& snapshots, std::optional<Step> below) const {
  return snapshots.start.number >= store_.owner().snapshots_since && (!below || snapshots.step < *below);
}

/// Uses the step that was to be left out rather than a new start.
std::optional<checkpoint::Summary> StateCheckpointer::newest_valid(std::optional<Step> below,
                                                                   const checkpoint::Store::Reading& reading) {
  auto found = store_.newest_valid(group_, below, reading);
  if (found || !below) return found;
  if (communicator_.rank() == Rank(0))
    log(Severity::warning, "there is no usable checkpoint before step {}: the newest one is used", *below);
  return store_.newest_valid(group_, {}, reading);
}

std::vector<checkpoint::ShardReport> StateCheckpointer::read_snapshots(checkpoint::Levels& levels,
                                                                       const checkpoint::RestorePlan& plan,
                                                                       TrainingState& state, checkpoint::State& saved,
                                                                       const StartValues* fallback) try {
  auto targets = targets_in(state);
  std::erase_if(targets, is_elsewhere);
  std::optional<CompressionTargets> compression;
  const auto targets_of = [&](const checkpoint::Summary& all) {
    compression.emplace(state.compression, tensors_.layout, whole_.layout, holders_.rank(), holders_.size(),
                        all.tensors);
    compression->leave_out_unsaved(targets);
    targets.insert(targets.end(), compression->targets().begin(), compression->targets().end());
    const GroupTargets groups(groups_.of(state), tensors_.layout, all.tensors, GroupTargets::Misfit::refused);
    targets.insert(targets.end(), groups.targets().begin(), groups.targets().end());
    return targets;
  };
  auto reports = levels.restore_what_is_there(plan, targets_of, saved);
  compression->finish();
  if (compression->drops_residuals()) tell_dropped_residuals();
  return reports;
} catch (const StorageError& error) {
  if (error.exit_code() != ExitCode::incompatible) throw;
  if (fallback)
    throw StorageError(fmt::format("{}; a state that fits only in part is loaded from checkpoints only", error.what()));
  throw StorageError(fmt::format("{}; --no-snapshots ignores the snapshots", error.what()), error.exit_code());
}

std::optional<std::string> StateCheckpointer::restore(TrainingState& state, checkpoint::Levels& levels,
                                                      const checkpoint::RestorePlan& plan,
                                                      const StartValues* fallback) try {
  Stopwatch watch;
  checkpoint::State saved;
  const auto reports = read_snapshots(levels, plan, state, saved, fallback);
  agree(communicator_, group_.timeout(), [&] {
    check_identity(saved, fallback != nullptr);
    take_over(state, plan.step, saved, nullptr);
  });
  levels.keep_only(plan);
  std::map<checkpoint::RestoreSource, int> counts;
  for (const auto& shard : reports) {
    ++counts[shard.source];
    if (communicator_.rank().value == 0)
      log(Severity::info, "step {}: {} {} comes from {}, {:.3f} s", plan.step,
          saved.contains(kKeptRanges) ? "range" : "the snapshot of rank", shard.rank, name_of(shard.source),
          shard.seconds);
  }
  std::string sources;
  for (const auto& [source, count] : counts)
    sources += fmt::format("{}{} of {}", sources.empty() ? "" : ", ", count, name_of(source));
  return fmt::format("{} ({}) in {:.2f} s",
                     saved.contains(kKeptRanges) ? "what servers and their partners kept" : "snapshots", sources,
                     watch.seconds());
} catch (const CommError&) {
  throw;
} catch (const Error& error) {  // on all ranks alike
  const ExitCode code = error.exit_code();
  if (code != ExitCode::storage && code != ExitCode::corrupt && code != ExitCode::incomplete) throw;
  if (communicator_.rank().value == 0)
    log(Severity::warning, "the snapshots of step {} cannot be used: {}", plan.step, error.what());
  return std::nullopt;
}

std::vector<checkpoint::Target> StateCheckpointer::targets_in(const TrainingState& state) {
  std::vector<checkpoint::Target> targets;
  std::size_t arena_number = 0;
  for (const auto& arena : arenas(state)) {
    std::byte* host = host_copy(state, arena_number++, arena);
    for (const auto& view : whole_.layout.tensors()) {
      if (!has_values(arena, view)) continue;
      const tensor::Shape& shape = view.whole_shape();
      checkpoint::Target target{arena.prefix + view.whole_name(), tensor::DataType::float32, shape,
                                tensor::whole(shape), nullptr};
      const auto* const own = tensors_.layout.find(view.name);
      const auto box = own != nullptr && has_values(arena, *own) ? box_of(arena, *own) : std::nullopt;
      if (!box) targets.push_back(target);
      if (box)
        for (const auto& [piece, bytes] : pieces_of(arena, host, *own, *box)) {
          target.box = piece;
          target.bytes = bytes;
          targets.push_back(target);
        }
    }
  }
  return targets;
}

void StateCheckpointer::fill_start_values(const TrainingState& state, const StartValues& fallback) {
  std::size_t arena_number = 0;
  for (const auto& arena : arenas(state)) {
    auto* values = reinterpret_cast<float*>(host_copy(state, arena_number++, arena));
    if (arena.moments)
      std::memset(values, 0, arena.memory->bytes());
    else
      fallback.fill({values, arena.memory->bytes() / sizeof(float)});
  }
}

void StateCheckpointer::begin_averages(const TrainingState& state, const std::vector<std::string>& missing) {
  const std::byte* parameters = host_copy(state, 0, arenas(state).front());
  std::size_t arena_number = 0;
  for (const auto& arena : arenas(state)) {
    std::byte* host = host_copy(state, arena_number++, arena);
    for (const auto& view : tensors_.layout.tensors())
      if (!arena.moments && host != parameters && std::ranges::binary_search(missing, arena.prefix + view.whole_name()))
        std::memcpy(host + view.offset * sizeof(float), parameters + view.offset * sizeof(float),
                    view.count * sizeof(float));
  }
}

void StateCheckpointer::tell(const checkpoint::Summary& found, const checkpoint::Fit& fit) const {
  if (communicator_.rank().value != 0) return;
  constexpr std::size_t kAll = ~std::size_t{0};
  log(Severity::warning, "the checkpoint of step {} fits only in part; {} tensors are loaded: {}", found.step,
      fit.matching.size(), checkpoint::shortened(fit.matching, kAll));
  if (!fit.missing.empty())
    log(Severity::warning, "{} tensors are not in it and are initialized: {}", fit.missing.size(),
        checkpoint::shortened(fit.missing, kAll));
  if (!fit.unused.empty())
    log(Severity::warning, "{} tensors of it are ignored, because this run has none with these names: {}",
        fit.unused.size(), checkpoint::shortened(fit.unused, kAll));
}

/// Such a checkpoint counts as damaged, so that a run goes back to the one before by itself.
void StateCheckpointer::check_finite(const checkpoint::Summary& found, const std::vector<checkpoint::Target>& targets) {
  for (const auto& target : targets) {
    const auto values = static_cast<std::size_t>(tensor::element_count(target.box.extent));
    if (checkpoint::all_finite(target.dtype, {target.bytes, values * tensor::size_of(target.dtype)})) continue;
    throw StorageError(
        fmt::format("tensor \"{}\" of checkpoint \"{}\" contains values that are infinite or not a number; "
                    "a run cannot continue from it: remove its folder if it still exists",
                    target.name, found.folder.string()),
        ExitCode::corrupt);
  }
}

void StateCheckpointer::tell_dropped_residuals() const {
  if (communicator_.rank() == Rank(0))
    log(Severity::warning,
        "the checkpoint has residuals of compressed gradients or parameters, which this run has no place for: what "
        "they "
        "lack is lost (parallel.compression)");
}

void StateCheckpointer::read(const checkpoint::Summary& found, TrainingState& state, const StartValues* fallback) {
  auto targets = targets_in(state);
  const int holders = state.compression.holders > 0 ? state.compression.holders : holders_.size();
  CompressionTargets compression(state.compression, tensors_.layout, whole_.layout, holders_.rank(), holders,
                                 found.tensors);
  compression.leave_out_unsaved(targets);
  targets.insert(targets.end(), compression.targets().begin(), compression.targets().end());
  const GroupTargets groups(groups_.of(state), tensors_.layout, found.tensors,
                            fallback ? GroupTargets::Misfit::begins_afresh : GroupTargets::Misfit::refused);
  targets.insert(targets.end(), groups.targets().begin(), groups.targets().end());
  auto fit = checkpoint::fit(found, targets);
  const bool is_partial = !fit.exact();
  if (!fit.mismatched.empty() || (is_partial && !fallback)) refuse(found, fit);
  if (is_partial) {
    fill_start_values(state, *fallback);
    std::erase_if(targets, [&](const checkpoint::Target& target) {
      return std::binary_search(fit.missing.begin(), fit.missing.end(), target.name);
    });
    tell(found, fit);
  }
  const bool alone = communicator_.ranks_on_host_of(communicator_.rank()).size() == 1;
  std::erase_if(targets, is_elsewhere);
  std::erase_if(targets, [](const auto& target) { return tensor::element_count(target.box.extent) == 0; });
  store_.read(found, targets, alone && !fallback ? checkpoint::PageCache::passed : checkpoint::PageCache::used);
  check_finite(found, targets);
  compression.finish();
  if (compression.drops_residuals()) tell_dropped_residuals();
  begin_averages(state, fit.missing);
  take_over(state, found.step, found.state, fallback);
  for (const auto& arena : arenas(state))
    if (arena.moments && std::ranges::any_of(fit.missing, [&](auto& name) { return name.starts_with(arena.prefix); }))
      state.updates = state.held_updates = 0;  // of the others' moments less is then made than they are worth: safe
  if (groups.fits()) return;
  begin_groups(state, backend_);
  state.updates = state.held_updates = 0;
  if (communicator_.rank() == Rank(0))
    log(Severity::warning, "the states of the checkpoint's groups do not fit this run (parallel.groups): {}",
        state.all_groups > 0 ? "each group begins with the averaged parameters" : "the averaged parameters are used");
}

void StateCheckpointer::take_over(TrainingState& state, Step step, const checkpoint::State& saved,
                                  const StartValues* fallback) {
  const bool says_where = !fallback || saved.contains("position");
  const std::int64_t position =
      says_where ? number(saved, "position") : checked_product(step.value, fallback->global_batch, "the position");
  if (!says_where && communicator_.rank().value == 0)
    log(Severity::warning, "the checkpoint does not contain the position in the samples: continuing at {}", position);
  std::size_t arena_number = 0;
  for (const auto& arena : arenas(state)) {
    auto* const host = reinterpret_cast<float*>(host_copy(state, arena_number++, arena));
    // Whatever was written there.
    if (is_reserved(arena)) optim::discard_others({host, arena.memory->bytes() / sizeof(float)}, arena.shard);
    if (!is_on_host(state, backend_))
      for (const auto& [first, end] : held_in(arena))
        backend_.copy_from_host(static_cast<float*>(arena.memory->data()) + first, host + first,
                                (end - first) * sizeof(float));
  }
  groups_.write(state);
  const std::int64_t updates = saved.contains("updates") ? number(saved, "updates") : step.value;
  const std::int64_t held = saved.contains(kHeldUpdates) ? number(saved, kHeldUpdates) : 0;
  if (position < 0 || updates < 0 || held < 0 || held > updates)
    throw StorageError(
        fmt::format("the checkpoint has an impossible position {}, or {} updates of which {} held second moments",
                    position, updates, held),
        ExitCode::corrupt);
  state.step = step;
  state.position = position;
  state.updates = updates;
  state.held_updates = held;
  state.audited.reset();
  if (saved.contains(checkpoint::kAuditedState)) state.audited = Step(number(saved, checkpoint::kAuditedState));
  state.best.reset();
  if (const auto best = saved.find(kBestState); best != saved.end()) state.best = best_evaluation_from(best->second);
  state.loss_scale = LossScale::start(backend_.activation_type());
  if (backend_.activation_type() == tensor::DataType::float16 && saved.contains("loss_scale.exponent"))
    state.loss_scale = {number(saved, "loss_scale.exponent"), number(saved, "loss_scale.good_steps")};
}

}  // namespace distdl::train
