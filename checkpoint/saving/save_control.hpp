// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <distdl/base/clock.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/checkpoint/saver.hpp>

namespace distdl::checkpoint {

/// What ends a run, or what a save failed with; thrown again as what it was to the other ranks.
struct Failure {
  ExitCode code = ExitCode::storage;
  std::string message;
};
Failure failure_of(const std::exception& error);
/// Throws StorageError if there is a failure.
void throw_again(const std::optional<Failure>& failure);

/// Whose turn a save is, and how it ended: what the training thread and the writing thread of a rank know of each
/// other. Thread-safe.
class SaveControl {
 public:
  /// A lazy save goes idle -> copying -> copied -> writing -> idle. Where the training thread copies, it goes idle ->
  /// writing -> idle. A save that any rank cannot copy goes back to idle. It is the writing thread's turn while copying
  /// or writing, else the training thread's.
  enum class Phase { idle, copying, copied, writing };
  /// give_up: leave all as it is. close: the run ended well, so its snapshots are needless.
  enum class End { none, give_up, close };

  Phase phase() const;
  /// Nothing happens if the phase is not `from`, because the other thread gave the save up.
  void advance(Phase from, Phase to);
  /// The save that was being copied is given up.
  void give_up_copy();
  /// For the training thread: returns when it is its turn, or the writing thread has failed. False after the timeout.
  bool await_training_turn(Clock::duration timeout);
  /// For the writing thread: returns what it has to do, or nothing when it has to end.
  std::optional<Phase> await_writing_turn();

  /// A new save: forgets how the one before ended.
  void begin();
  void add_stall(double seconds);
  /// With the stall up to now. A failure with another code than ExitCode::storage is fatal.
  void finish(SaveOutcome outcome, std::optional<Failure> failure);
  void add(SaveOutcome outcome);
  std::vector<SaveOutcome> take_outcomes();
  /// The last one, with the stall up to now.
  SaveOutcome last_outcome();

  /// From now on all ranks' saves throw this.
  void set_fatal(Failure failure);
  void throw_if_fatal() const;
  /// Also throws if the last save failed.
  void throw_if_failed() const;

  /// The group of the writing thread, whose waits end() may cancel; null when the thread destroys it.
  void use(Group* group);
  /// For the writing thread: it fails, or has ended and uses nothing any more.
  void thread_failed(Failure failure);
  void thread_ended();
  /// Makes the writing thread end. Waits for what is under way for `patience` if the run ended well, then cancels it.
  /// False if the thread does not end even then, because it is in a system call that does not come back.
  bool end(End how, Clock::duration patience);
  bool is_closed() const;

 private:
  enum class Thread { running, failed, ended };

  void locked(const std::function<void()>& change);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Phase phase_ = Phase::idle;
  Thread thread_ = Thread::running;
  End end_ = End::none;
  Group* group_ = nullptr;
  std::optional<Failure> fatal_, last_error_;
  double stall_seconds_ = 0;
  std::vector<SaveOutcome> outcomes_;
};

}  // namespace distdl::checkpoint
