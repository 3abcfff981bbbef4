// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include <distdl/base/clock.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/checkpoint/commit/agreement.hpp>
#include <distdl/checkpoint/commit/finite.hpp>
#include <distdl/checkpoint/commit/save_activity.hpp>
#include <distdl/checkpoint/format/writer.hpp>
#include <distdl/checkpoint/multilevel/buffer_rotation.hpp>
#include <distdl/checkpoint/saver.hpp>
#include <distdl/checkpoint/snapshot_buffer.hpp>
#include <distdl/checkpoint/snapshot_memory.hpp>

namespace distdl::checkpoint {
namespace {
/// What ends a run, or what a save failed with; thrown again as what it was to the other ranks.
struct Failure {
  ExitCode code = ExitCode::storage;
  std::string message;
};

Failure failure_of(const std::exception& error) {
  const auto* known = dynamic_cast<const Error*>(&error);
  return {known ? known->exit_code() : ExitCode::storage, error.what()};
}

void throw_again(const std::optional<Failure>& failure) {
  if (failure) throw StorageError(failure->message, failure->code);
}

constexpr std::chrono::hours kRestart(1);     // after the end of a run, its buffers are kept so long for a restart
constexpr std::chrono::seconds kLastCall(5);  // for one system call to come back
}  // namespace

class Saver::Impl : public std::enable_shared_from_this<Saver::Impl> {
 public:
  Impl(const Store& store, Group& training, MakeGroup writing, Setup setup)
      : store_(store),
        training_(training),
        rank_(training.rank()),
        make_group_(std::move(writing)),
        setup_(std::move(setup)),
        lazy_(store.options().mode == "lazy"),
        synchronous_(store.options().mode == "sync"),
        buffers_(setup_.run, setup_.levels ? setup_.levels->memory : setup_.run, rank_,
                 setup_.levels ? std::optional(setup_.levels->used) : std::nullopt) {
    sweep_buffers(setup_.run, kRestart);
  }

  void start() {
    if (!synchronous_) thread_ = std::thread([self = shared_from_this()] { self->write_until_the_end(); });
  }

  void give_up() {
    end(true);
    if (!setup_.keep_buffers) remove_buffers();
  }

  void prepare(std::span<const Slice> slices, const State& state) {
    // With levels these go when newer ones are safe.
    if (const int left = setup_.levels ? 0 : sweep_buffers_of(setup_.run); left > 0)
      log(Severity::info, "{} buffers that an earlier start of this run had left in memory are removed", left);
    if (!synchronous_) buffers_.prepare(buffer_bytes(slices, state));
  }

  bool save(Step step, std::span<const Slice> slices, const State& state, const Destination& destination) {
    if (synchronous_) return save_synchronously(step, slices, state), true;
    Stopwatch stall;
    fence();
    auto busy = agree_in_step(training_, fmt::format("save step {}", step), [&] {
      std::lock_guard lock(mutex_);
      throw_again(fatal_);
      return std::string(phase_ == Phase::idle ? "" : "busy");
    });
    for (std::size_t rank = 0; rank < busy.size(); ++rank)
      if (!busy[rank].empty()) return skip(step, rank), false;
    begin(step, slices, state, destination);
    if (lazy_) {
      slices_.assign(slices.begin(), slices.end());
      state_ = state;
      enter(Phase::copying);
      copy_is_pending_ = true;
    } else {
      copy(slices, state);
      go_on();
    }
    add_stall(stall.seconds());
    return true;
  }

  void fence() {
    if (!copy_is_pending_) return;
    Stopwatch stall;
    {
      std::unique_lock lock(mutex_);
      bool done = changed_.wait_for(lock, timeout(), [&] { return dead_ || phase_ != Phase::copying; });
      if (!done) fatal_ = {ExitCode::storage, too_long("its own copy")};
    }
    copy_is_pending_ = false;
    go_on();
    add_stall(stall.seconds());
  }

  SaveOutcome save_and_wait(Step step, std::span<const Slice> slices, const State& state) {
    if (synchronous_) return save_synchronously(step, slices, state);
    fence();
    wait_until_idle(false);
    Stopwatch stall;
    begin(step, slices, state, {});
    is_last_ = true;
    copy(slices, state);
    go_on();
    wait_until_idle(true);
    add_stall(stall.seconds());
    std::lock_guard lock(mutex_);
    outcomes_.back().stall_seconds = stall_seconds_;
    return outcomes_.back();
  }

  void wait() {
    fence();
    if (!synchronous_) wait_until_idle(true);
  }

  std::vector<SaveOutcome> outcomes() {
    std::lock_guard lock(mutex_);
    return std::exchange(outcomes_, {});
  }

  bool is_busy() const {
    std::lock_guard lock(mutex_);
    return phase_ != Phase::idle;
  }
  std::int64_t skipped() const { return skipped_; }
  std::string newest_buffer() const { return buffers_.newest_name(); }

  void close() {
    end(false);
    remove_buffers();
  }

 private:
  enum class Phase { idle, copying, copied, writing };

  Clock::duration timeout() const {
    return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(store_.options().timeout_seconds));
  }
  std::string too_long(const std::string& whom) const {
    return fmt::format(
        "the save of step {} to \"{}\" is not done after checkpoint.timeout_seconds = {}: it waits for {}", label_.step,
        store_.root().string(), store_.options().timeout_seconds, whom);
  }
  void enter(Phase phase) {
    {
      std::lock_guard lock(mutex_);
      phase_ = phase;
    }
    changed_.notify_all();
  }
  void add_stall(double seconds) {
    std::lock_guard lock(mutex_);
    stall_seconds_ += seconds;
  }

  void skip(Step step, std::size_t rank) {
    ++skipped_;
    // Less and less often: a short interval skips many.
    if (training_.rank() == 0 && std::has_single_bit(static_cast<std::uint64_t>(skipped_)))
      log(Severity::warning,
          "step {} is not saved: rank {} still writes step {}; {} saves were skipped so far, these come too often for "
          "this disk or network",
          step, rank, label_.step, skipped_);
  }

  // The training thread's part.

  /// Nothing is under way.
  void begin(Step step, std::span<const Slice> slices, const State& state, const Destination& destination) {
    destination_ = destination;
    label_ = {setup_.run, training_.rank(), training_.size(), step, ++sequence_, start_of(store_.owner())};
    is_last_ = false;
    copy_error_.reset();
    last_error_.reset();
    stall_seconds_ = 0;
    since_begin_ = Stopwatch();
    activity_.set(kCopies);
    try {
      check_state(state);
      buffers_.take_next(buffer_bytes(slices, state));
    } catch (const std::exception& error) {
      copy_error_ = failure_of(error);
    }
  }

  /// In either thread.
  void copy(std::span<const Slice> slices, const State& state) {
    if (copy_error_) return;
    try {
      CopyPlan plan{static_cast<std::size_t>(store_.options().copy_threads), setup_.finite};
      fill_buffer(buffers_.current().writable(), label_, slices, state, plan);
    } catch (const std::exception& error) {
      copy_error_ = failure_of(error);
    }
  }

  /// Collective. Once this rank's copy is made, or failed: all write theirs, or all throw.
  void go_on() {
    unkept_.clear();
    try {
      const auto is_private = agree_in_step(training_, fmt::format("take a snapshot of step {}", label_.step), [&] {
        std::lock_guard lock(mutex_);
        throw_again(fatal_);
        throw_again(copy_error_);
        return std::string(setup_.levels && buffers_.current().name().empty() ? "private" : "");
      });
      for (std::size_t rank = is_private.size(); rank-- > 0;)
        if (!is_private[rank].empty())
          unkept_ = fmt::format(
              "rank {} finds no room in /dev/shm; its snapshot lies in private memory, which ends with its process",
              rank);
    } catch (...) {
      enter(Phase::idle);
      throw;
    }
    buffers_.sealed();
    enter(Phase::writing);
  }

  /// Collective. `throws`: also if the save that began last failed and a later one may do better.
  void wait_until_idle(bool throws) {
    const auto activities = agree(training_, fmt::format("wait for the save of step {}", label_.step), [&] {
      std::unique_lock lock(mutex_);
      if (!changed_.wait_for(lock, timeout(), [&] { return dead_ || phase_ == Phase::idle; })) return activity_.text();
      throw_again(fatal_);
      if (throws) throw_again(last_error_);
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
                "tensor \"{}\" became infinite or not a number by step {}: such a state is never saved", slice.name,
                step);
      return std::string();
    });
    SaveReport report = store_.save(training_, step, slices, state);
    const double seconds = stall.seconds();
    SaveOutcome outcome{step, report.bytes, seconds, seconds, ""};
    outcomes_.push_back(outcome);
    return outcome;
  }

  // The writing thread's part.

  void write_until_the_end() {
    set_log_rank(Rank(rank_));
    std::unique_ptr<Group> group;
    std::optional<WatchedGroup> watched;
    try {
      group = make_group_();
      reach(group.get());
      write_what_comes(watched.emplace(*group, activity_));
    } catch (const std::exception& error) {
      std::lock_guard lock(mutex_);
      fatal_ = failure_of(error);
      dead_ = true;
    }
    levels_.reset();
    reach(nullptr);
    watched.reset();
    group.reset();
    {
      std::lock_guard lock(mutex_);
      gone_ = true;
    }
    changed_.notify_all();
  }

  /// From now on this group's waits can be cut short.
  void reach(Group* group) {
    {
      std::lock_guard lock(mutex_);
      connects_ = false;
      group_ = group;
      if (group && stops_ && !forgets_) group->cancel();
    }
    changed_.notify_all();
  }

  void write_what_comes(Group& group) {
    if (setup_.levels) {
      levels_.emplace(group, store_.files(), *setup_.levels);
      for (const std::string& gap : levels_->gaps())
        if (rank_ == 0) log(Severity::warning, "{}", gap);
    }
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return stops_ || phase_ == Phase::copying || phase_ == Phase::writing; });
      if (stops_) break;
      Phase phase = phase_;
      lock.unlock();
      phase == Phase::copying ? copy(slices_, state_) : write(group);
      enter(phase == Phase::copying ? Phase::copied : Phase::idle);
      lock.lock();
    }
    lock.unlock();
    if (levels_ && forgets_) forget();
  }

  /// The run is over, and well: nobody needs its snapshots.
  void forget() try { levels_->keep_only(std::nullopt); } catch (const StorageError& error) {
    log(Severity::warning, "snapshots of this run stay in the nodes' memory or on their disks: {}", error.what());
  }

  void write(Group& group) {
    SaveOutcome outcome{.step = label_.step, .error = "", .file_system = destination_.file_system};
    std::optional<Failure> failure;
    try {
      activity_.set(kProtects);
      Snapshot snapshot = open_snapshot(buffers_.current().bytes());
      protect(snapshot.bytes);
      activity_.set(kWrites);
      if (destination_.file_system)
        outcome.bytes = store_.save(group, label_.step, snapshot.slices, snapshot.state).bytes;
    } catch (const std::exception& error) {
      failure = failure_of(error);
      outcome.error = error.what();
    }
    outcome.durable_seconds = since_begin_.seconds();
    outcome.unkept = unkept_;
    std::lock_guard lock(mutex_);
    bool fatal = failure && failure->code != ExitCode::storage;
    if (fatal) fatal_ = failure;
    if (failure && !fatal && !is_last_ && rank_ == 0)
      log(Severity::error, "{}; training goes on, the checkpoint before is kept", failure->message);
    last_error_ = std::move(failure);
    outcome.stall_seconds = stall_seconds_;
    outcomes_.push_back(std::move(outcome));
  }

  /// Without copies the snapshot is still worth writing.
  void protect(std::size_t bytes) try {
    if (!levels_) return;
    const Protection& how = destination_.levels;
    levels_->protect(buffers_.current().bytes().first(bytes), how);
    buffers_.kept_elsewhere(how);
    if (how.disk) unkept_.clear();  // it is on a disk, whatever the memory
  } catch (const StorageError& error) {
    unkept_ = error.what();
    if (rank_ == 0) log(Severity::error, "step {} is not kept elsewhere: {}", label_.step, error.what());
  }

  void end(bool gives_up) {
    if (!thread_.joinable()) return;
    std::unique_lock lock(mutex_);
    stops_ = true;
    forgets_ = !gives_up;
    changed_.notify_all();
    changed_.wait(lock, [&] { return !connects_; });  // bounds itself, and uses what may not outlive this
    const auto is_gone = [&] { return gone_; };
    bool gone = !gives_up && changed_.wait_for(lock, timeout(), is_gone);
    if (!gone && group_) group_->cancel();
    gone = changed_.wait_for(lock, kLastCall, is_gone);
    abandoned_ = !gone;
    forgets_ = forgets_ && gone;
    lock.unlock();
    if (gone) return thread_.join();
    thread_.detach();  // in a system call that does not come back; what it needs stays with it
    log(Severity::warning, "the thread that saves step {} to \"{}\" {} and does not come back: it is left alone",
        label_.step, store_.root().string(), activity_.text());
  }

  void remove_buffers() {
    buffers_.remove();
    if (!abandoned_) buffers_.release();  // an abandoned thread may still use them
  }

  Store store_;
  Group& training_;  ///< for the training thread only
  const int rank_;
  MakeGroup make_group_;
  Setup setup_;
  bool lazy_, synchronous_;

  // Of whoever's turn it is: the training thread while idle or copied, else the writing thread.
  BufferRotation buffers_;
  Destination destination_;
  std::uint64_t sequence_ = 0;
  SnapshotLabel label_;
  Stopwatch since_begin_;
  std::vector<Slice> slices_;  ///< for a lazy copy
  State state_;
  bool is_last_ = false;  ///< training waits for its commit
  std::optional<Failure> copy_error_;
  std::string unkept_;
  SaveActivity activity_;
  std::optional<Levels> levels_;  ///< of the writing thread

  // Of the training thread.
  bool copy_is_pending_ = false, abandoned_ = false;
  std::int64_t skipped_ = 0;

  mutable std::mutex mutex_;  ///< for all that follows
  std::condition_variable changed_;
  Phase phase_ = Phase::idle;
  bool stops_ = false, forgets_ = false, dead_ = false;  ///< dead: the writing thread failed
  bool connects_ = true, gone_ = false;                  ///< how far the writing thread is
  Group* group_ = nullptr;
  std::optional<Failure> fatal_, last_error_;
  double stall_seconds_ = 0;
  std::vector<SaveOutcome> outcomes_;
  std::thread thread_;
};

Saver::Saver(const Store& store, Group& training, MakeGroup writing, Setup setup)
    : impl_(std::make_shared<Impl>(store, training, std::move(writing), std::move(setup))) {
  impl_->start();
}
Saver::~Saver() {
  impl_->give_up();
}

void Saver::prepare(std::span<const Slice> slices, const State& state) {
  impl_->prepare(slices, state);
}
bool Saver::save(Step step, std::span<const Slice> slices, const State& state, const Destination& destination) {
  return impl_->save(step, slices, state, destination);
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
