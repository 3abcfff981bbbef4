// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <utility>

#include <distdl/base/clock.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/checkpoint/commit/agreement.hpp>
#include <distdl/checkpoint/commit/finite.hpp>
#include <distdl/checkpoint/format/writer.hpp>
#include <distdl/checkpoint/saver.hpp>
#include <distdl/checkpoint/saving/save_writer.hpp>
#include <distdl/checkpoint/snapshot_memory.hpp>

namespace distdl::checkpoint {
namespace {
constexpr std::chrono::hours kRestart(1);  // after the end of a run, its buffers are kept so long for a restart

bool is_pending_copy(SaveControl::Phase phase) {
  return phase == SaveControl::Phase::copying || phase == SaveControl::Phase::copied;
}
}  // namespace

/// The training thread's part.
class Saver::Impl {
 public:
  using Phase = SaveControl::Phase;
  using End = SaveControl::End;

  Impl(const Store& store, Group& training, std::unique_ptr<Group> writing, Setup setup)
      : training_(training), shared_(std::make_shared<SharedSave>(store, training.rank(), std::move(setup))) {
    sweep_buffers(setup_.run, kRestart);
    if (!is_synchronous()) writer_.emplace(shared_, std::move(writing));
  }

  void give_up() {
    end(End::give_up);
    if (!setup_.keep_buffers) remove_buffers();
  }

  void prepare(std::span<const Slice> slices, const State& state) {
    // With levels these go when newer ones are safe.
    if (const int left = setup_.levels ? 0 : sweep_buffers_of(setup_.run); left > 0)
      log(Severity::info, "removed {} buffers that an earlier start of this run left in memory", left);
    if (!is_synchronous()) buffers_.prepare(buffer_bytes(slices, state));
  }

  bool save(Step step, std::span<const Slice> slices, const State& state, const Destination& destination) {
    if (is_synchronous()) return save_synchronously(step, slices, state), true;
    Stopwatch stall;
    fence();
    auto busy = agree_in_step(training_, fmt::format("save step {}", step), [&] {
      control_.throw_if_fatal();
      return std::string(is_busy() ? "busy" : "");
    });
    for (std::size_t rank = 0; rank < busy.size(); ++rank)
      if (!busy[rank].empty()) return skip(step, rank), false;
    begin(step, slices, state, destination);
    if (shared_->store.options().mode == SaveMode::lazy) {
      save_.slices.assign(slices.begin(), slices.end());
      save_.state = state;
      control_.advance(Phase::idle, Phase::copying);
    } else {
      shared_->copy(slices, state);
      write_or_give_up(Phase::idle);
    }
    control_.add_stall(stall.seconds());
    return true;
  }

  void await_copy() {
    if (is_synchronous() || !is_pending_copy(control_.phase())) return;
    Stopwatch stall;
    if (!control_.await_training_turn(shared_->timeout()))
      control_.set_fatal({ExitCode::storage, too_long("this rank's own copy")});
    control_.add_stall(stall.seconds());
  }

  void fence() {
    if (is_synchronous() || !is_pending_copy(control_.phase())) return;
    await_copy();
    Stopwatch stall;
    write_or_give_up(Phase::copied);
    control_.add_stall(stall.seconds());
  }

  SaveOutcome save_and_wait(Step step, std::span<const Slice> slices, const State& state) {
    if (is_synchronous()) return save_synchronously(step, slices, state);
    fence();
    wait_until_idle(&SaveControl::throw_if_fatal);
    Stopwatch stall;
    begin(step, slices, state, {});
    save_.is_last = true;
    shared_->copy(slices, state);
    write_or_give_up(Phase::idle);
    wait_until_idle(&SaveControl::throw_if_failed);
    control_.add_stall(stall.seconds());
    return control_.last_outcome();
  }

  void wait() {
    fence();
    if (!is_synchronous()) wait_until_idle(&SaveControl::throw_if_failed);
  }

  std::vector<SaveOutcome> outcomes() { return control_.take_outcomes(); }
  bool is_busy() const { return control_.phase() != Phase::idle; }
  std::int64_t skipped() const { return skipped_; }
  std::string newest_buffer() const { return buffers_.newest_name(); }

  void close() {
    end(End::close);
    remove_buffers();
  }

 private:
  bool is_synchronous() const { return shared_->store.options().mode == SaveMode::sync; }

  std::string too_long(const std::string& whom) const {
    return fmt::format(
        "the save of step {} to \"{}\" has not finished after checkpoint.timeout_seconds = {}: it waits for {}",
        save_.label.step, shared_->store.root().string(), shared_->store.options().timeout_seconds, whom);
  }

  void skip(Step step, std::size_t rank) {
    ++skipped_;
    // Less and less often: a short interval skips many.
    if (training_.rank() == 0 && std::has_single_bit(static_cast<std::uint64_t>(skipped_)))
      log(Severity::warning,
          "step {} is not saved: rank {} still writes step {}; {} saves were skipped so far, because saves are too "
          "frequent for "
          "this disk or network",
          step, rank, save_.label.step, skipped_);
  }

  /// Nothing is under way.
  void begin(Step step, std::span<const Slice> slices, const State& state, const Destination& destination) {
    save_ = {{setup_.run, training_.rank(), training_.size(), step, ++sequence_, start_of(shared_->store.owner())},
             destination};
    control_.begin();
    shared_->activity.set(kCopies);
    try {
      check_state(state);
      buffers_.take_next(buffer_bytes(slices, state));
    } catch (const std::exception& error) {
      save_.copy_error = failure_of(error);
    }
  }

  /// Collective. Once this rank's copy is made, or failed: all write theirs, or all throw.
  void write_or_give_up(Phase from) {
    try {
      const auto is_private =
          agree_in_step(training_, fmt::format("take a snapshot of step {}", save_.label.step), [&] {
            control_.throw_if_fatal();
            throw_again(save_.copy_error);
            return std::string(setup_.levels && buffers_.current().name().empty() ? "private" : "");
          });
      for (std::size_t rank = is_private.size(); rank-- > 0;)
        if (!is_private[rank].empty())
          save_.unkept = fmt::format(
              "/dev/shm is full for rank {}; its snapshot is in private memory, which is freed when its process ends",
              rank);
    } catch (...) {
      control_.give_up_copy();
      throw;
    }
    buffers_.sealed();
    control_.advance(from, Phase::writing);
  }

  /// Collective. Throws on all ranks what `check` throws on one.
  void wait_until_idle(void (SaveControl::*check)() const) {
    const auto activities = agree(training_, fmt::format("wait for the save of step {}", save_.label.step), [&] {
      if (!control_.await_training_turn(shared_->timeout())) return shared_->activity.text();
      (control_.*check)();
      return std::string();
    });
    if (std::any_of(activities.begin(), activities.end(), [](const std::string& what) { return !what.empty(); }))
      throw StorageError(too_long(who_is_late(activities)));
  }

  SaveOutcome save_synchronously(Step step, std::span<const Slice> slices, const State& state) {
    Stopwatch stall;
    agree(training_, fmt::format("save step {}", step), [&] {
      for (const Slice& slice : slices)
        require(!setup_.finite || all_finite(slice.dtype, {slice.bytes, bytes_of(std::span(&slice, 1))}),
                "tensor \"{}\" is infinite or not a number at step {}: such a state is never saved", slice.name, step);
      return std::string();
    });
    SaveReport report = shared_->store.save(training_, step, slices, state);
    const double seconds = stall.seconds();
    SaveOutcome outcome{step, report.bytes, seconds, seconds, ""};
    control_.add(outcome);
    return outcome;
  }

  void end(End how) {
    if (writer_ && writer_->end(how)) writer_.reset();
  }

  void remove_buffers() {
    buffers_.remove();
    if (!writer_) buffers_.release();  // else an abandoned thread may still use them
  }

  Group& training_;
  std::shared_ptr<SharedSave> shared_;
  const Setup& setup_ = shared_->setup;
  BufferRotation& buffers_ = shared_->buffers;
  PendingSave& save_ = shared_->save;
  SaveControl& control_ = shared_->control;
  std::optional<SaveWriter> writer_;  ///< but in mode "sync"
  std::uint64_t sequence_ = 0;
  std::int64_t skipped_ = 0;
};

Saver::Saver(const Store& store, Group& training, std::unique_ptr<Group> writing, Setup setup)
    : impl_(std::make_unique<Impl>(store, training, std::move(writing), std::move(setup))) {}
Saver::~Saver() {
  impl_->give_up();
}

void Saver::prepare(std::span<const Slice> slices, const State& state) {
  impl_->prepare(slices, state);
}
bool Saver::save(Step step, std::span<const Slice> slices, const State& state, const Destination& destination) {
  return impl_->save(step, slices, state, destination);
}
void Saver::await_copy() {
  impl_->await_copy();
}

void Saver::fence() {
  impl_->fence();
}
SaveOutcome Saver::save_and_wait(Step step, std::span<const Slice> slices, const State& state) {
  return impl_->save_and_wait(step, slices, state);
}
void Saver::wait() {
  impl_->wait();
}
std::vector<SaveOutcome> Saver::outcomes() {
  return impl_->outcomes();
}
bool Saver::is_busy() const {
  return impl_->is_busy();
}
std::int64_t Saver::skipped() const noexcept {
  return impl_->skipped();
}
std::string Saver::newest_buffer() const {
  return impl_->newest_buffer();
}
void Saver::close() {
  impl_->close();
}

}  // namespace distdl::checkpoint
