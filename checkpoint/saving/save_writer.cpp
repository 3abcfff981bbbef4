// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>
#include <utility>

#include <distdl/base/activity.hpp>
#include <distdl/base/log.hpp>
#include <distdl/base/spans.hpp>
#include <distdl/checkpoint/saving/save_writer.hpp>

namespace distdl::checkpoint {
namespace {
using Phase = SaveControl::Phase;

/// The work of the writing thread.
class Writing {
 public:
  Writing(SharedSave& shared, Group& group) : shared_(shared), group_(group, shared.activity) {
    if (!shared.setup.levels) return;
    levels_.emplace(group_, shared.store.files(), *shared.setup.levels);
    for (const std::string& gap : levels_->gaps())
      if (shared.rank == 0) log(Severity::warning, "{}", gap);
  }

  void work_until_the_end() {
    SaveControl& control = shared_.control;
    while (const auto phase = control.await_writing_turn()) {
      if (*phase == Phase::copying)
        shared_.copy(shared_.save.slices, shared_.save.state);
      else
        write();
      control.advance(*phase, *phase == Phase::copying ? Phase::copied : Phase::idle);
    }
    if (levels_ && control.is_closed()) forget();
  }

 private:
  /// The run ended well, so its snapshots are not needed.
  void forget() try { levels_->keep_only(std::nullopt); } catch (const StorageError& error) {
    log(Severity::warning, "snapshots of this run remain in the nodes' memory or on their disks: {}", error.what());
  }

  void write() {
    const PendingSave& save = shared_.save;
    SaveOutcome outcome{.step = save.label.step, .error = "", .file_system = save.destination.file_system};
    std::optional<Failure> failure;
    try {
      shared_.activity.set(kProtects);
      show_step(save.label.step);
      enter_phase(RankPhase::protect);
      Snapshot snapshot = open_snapshot(shared_.buffers.current().bytes());
      protect(snapshot.bytes);
      shared_.activity.set(kWrites);
      if (save.destination.file_system) enter_phase(RankPhase::write);
      if (save.destination.file_system)
        outcome.bytes = shared_.store.save(group_, save.label.step, snapshot.slices, snapshot.state).bytes;
    } catch (const std::exception& error) {
      failure = failure_of(error);
      outcome.error = error.what();
      if (failure->code == ExitCode::storage && !save.is_last && shared_.rank == 0)
        log(Severity::error, "{}; training continues, and the previous checkpoint is kept", error.what());
    }
    outcome.durable_seconds = save.since_begin.seconds();
    outcome.unkept = save.unkept;
    outcome.levels = save.levels;
    enter_phase(RankPhase::idle);
    shared_.control.finish(std::move(outcome), std::move(failure));
  }

  /// Without copies the snapshot is still worth writing.
  void protect(std::size_t bytes) try {
    if (!levels_) return;
    const Protection& how = shared_.save.destination.levels;
    auto& levels = shared_.save.levels;
    if (shared_.save.unkept.empty()) levels.emplace_back(kMemoryLevel);
    const Protection made = levels_->protect(shared_.buffers.current().bytes().first(bytes), how);
    std::ranges::move(made.names(), std::back_inserter(levels));
    shared_.buffers.kept_elsewhere(how);
    if (how.outlives_memory()) shared_.save.unkept.clear();  // it is on a disk, whatever the memory
  } catch (const StorageError& error) {
    shared_.save.unkept = error.what();
    if (shared_.rank == 0)
      log(Severity::error, "the snapshot of step {} has no copy elsewhere: {}", shared_.save.label.step, error.what());
  }

  SharedSave& shared_;
  WatchedGroup group_;
  std::optional<Levels> levels_;
};

void run(SharedSave& shared, std::unique_ptr<Group> group) {
  set_log_rank(Rank(shared.rank));
  const ShownThread shown("writer");
  try {
    Writing(shared, *group).work_until_the_end();
  } catch (const std::exception& error) {
    shared.control.thread_failed(failure_of(error));
  }
  shared.control.use(nullptr);
  group.reset();
  shared.control.thread_ended();
}
}  // namespace

SharedSave::SharedSave(Store the_store, int the_rank, Saver::Setup the_setup)
    : store(std::move(the_store)),
      rank(the_rank),
      setup(std::move(the_setup)),
      buffers(setup.run, setup.levels ? setup.levels->memory : setup.run, rank,
              setup.levels ? std::optional(used_levels(setup.levels->options)) : std::nullopt) {}

void SharedSave::copy(std::span<const Slice> slices, const State& state) {
  if (save.copy_error) return;
  const TimedSpan span(SpanKind::copy, "copy");
  try {
    CopyPlan plan{static_cast<std::size_t>(store.options().copy_threads), setup.finite};
    fill_buffer(buffers.current().writable(), save.label, slices, state, plan);
  } catch (const std::exception& error) {
    save.copy_error = failure_of(error);
  }
}

Clock::duration SharedSave::timeout() const {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(store.options().timeout_seconds));
}

SaveWriter::SaveWriter(std::shared_ptr<SharedSave> shared, std::unique_ptr<Group> group) : shared_(std::move(shared)) {
  shared_->control.use(group.get());
  thread_ = std::thread([kept = shared_, mine = std::move(group), recorder = recorder_of_this_thread()]() mutable {
    const RecordedThread recorded(std::move(recorder), "writer");
    run(*kept, std::move(mine));
  });
}

bool SaveWriter::end(SaveControl::End how) {
  if (!thread_.joinable()) return false;
  if (shared_->control.end(how, shared_->timeout())) return thread_.join(), true;
  thread_.detach();  // its data stay with it
  log(Severity::warning, "the thread that saves step {} to \"{}\" {} and does not return: it was detached",
      shared_->save.label.step, shared_->store.root().string(), shared_->activity.text());
  return false;
}

}  // namespace distdl::checkpoint
