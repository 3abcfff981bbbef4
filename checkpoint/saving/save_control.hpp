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

/// The error that ends a run, or with which a save failed. Every rank throws it again with its original code.
struct Failure {
  ExitCode code = ExitCode::storage;
  std::string message;
};
Failure failure_of(const std::exception& error);
/// Throws StorageError if there is a failure.
void throw_again(const std::optional<Failure>& failure);

/// State of a save that the training thread and the writing thread of a rank share: its phase, its result, and the
/// thread that works on it. Thread-safe.
class SaveControl {
 public:
  /// A lazy save goes idle -> copying -> copied -> writing -> idle. If the training thread copies, it goes idle ->
  /// writing -> idle. A save that any rank cannot copy goes back to idle. The writing thread works in the phases
  /// copying and writing, the training thread in the others.
  enum class Phase { idle, copying, copied, writing };
  /// give_up: keep the buffers as they are. close: the run ended well, so its snapshots are not needed.
  enum class End { none, give_up, close };

  Phase phase() const;
  /// Has no effect if the phase is not `from`, because the other thread then cancelled the save.
  void advance(Phase from, Phase to);
  /// Cancels the save that was being copied.
  void give_up_copy();
  /// Called by the training thread. Returns when it may work on the save, or when the writing thread has failed.
  /// Returns false after the timeout.
  bool await_training_turn(Clock::duration timeout);
  /// Called by the writing thread. Returns the phase in which it has to work, or nothing if it has to end.
  std::optional<Phase> await_writing_turn();

  /// Begins a new save and clears the result of the previous one.
  void begin();
  void add_stall(double seconds);
  /// Records the outcome with the stall so far. A failure with another code than ExitCode::storage is fatal.
  void finish(SaveOutcome outcome, std::optional<Failure> failure);
  void add(SaveOutcome outcome);
  std::vector<SaveOutcome> take_outcomes();
  /// The last outcome with the stall so far.
  SaveOutcome last_outcome();

  /// Afterwards the saves of all ranks throw this failure.
  void set_fatal(Failure failure);
  void throw_if_fatal() const;
  /// Throws the fatal failure, or the failure of the last save.
  void throw_if_failed() const;

  /// Sets the group of the writing thread, whose waits end() may cancel. Null: the thread destroys its group.
  void use(Group* group);
  /// Called by the writing thread when it fails (thread_failed), or when it ends and uses nothing any longer
  /// (thread_ended).
  void thread_failed(Failure failure);
  void thread_ended();
  /// Makes the writing thread end. If the run ended well, it waits for the current save for `patience`, then cancels
  /// it. Returns false if the thread does not end even then, because a system call does not return.
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
