// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include <distdl/base/shortage.hpp>
#include <distdl/checkpoint/saving/save_control.hpp>

namespace distdl::checkpoint {
namespace {
constexpr std::chrono::seconds kLastCall(5);  // for one system call to come back
}  // namespace

Failure failure_of(const std::exception& error) {
  if (is_shortage(error)) return {ExitCode::storage, message_of(error)};  // a later save may find room
  const auto* known = dynamic_cast<const Error*>(&error);
  return {known ? known->exit_code() : ExitCode::storage, error.what()};
}

void throw_again(const std::optional<Failure>& failure) {
  if (failure) throw StorageError(failure->message, failure->code);
}

void SaveControl::locked(const std::function<void()>& change) {
  {
    std::lock_guard lock(mutex_);
    change();
  }
  changed_.notify_all();
}

SaveControl::Phase SaveControl::phase() const {
  std::lock_guard lock(mutex_);
  return phase_;
}

void SaveControl::advance(Phase from, Phase to) {
  locked([&] {
    if (phase_ == from) phase_ = to;
  });
}

void SaveControl::give_up_copy() {
  locked([&] { phase_ = Phase::idle; });
}

bool SaveControl::await_training_turn(Clock::duration timeout) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(
      lock, timeout, [&] { return thread_ != Thread::running || phase_ == Phase::idle || phase_ == Phase::copied; });
}

std::optional<SaveControl::Phase> SaveControl::await_writing_turn() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return end_ != End::none || phase_ == Phase::copying || phase_ == Phase::writing; });
  return end_ == End::none ? std::optional(phase_) : std::nullopt;
}

void SaveControl::begin() {
  std::lock_guard lock(mutex_);
  last_error_.reset();
  stall_seconds_ = 0;
}

void SaveControl::add_stall(double seconds) {
  std::lock_guard lock(mutex_);
  stall_seconds_ += seconds;
}

void SaveControl::finish(SaveOutcome outcome, std::optional<Failure> failure) {
  std::lock_guard lock(mutex_);
  if (failure && failure->code != ExitCode::storage) fatal_ = failure;
  last_error_ = std::move(failure);
  outcome.stall_seconds = stall_seconds_;
  outcomes_.push_back(std::move(outcome));
}

void SaveControl::add(SaveOutcome outcome) {
  std::lock_guard lock(mutex_);
  outcomes_.push_back(std::move(outcome));
}

std::vector<SaveOutcome> SaveControl::take_outcomes() {
  std::lock_guard lock(mutex_);
  return std::exchange(outcomes_, {});
}

SaveOutcome SaveControl::last_outcome() {
  std::lock_guard lock(mutex_);
  outcomes_.back().stall_seconds = stall_seconds_;
  return outcomes_.back();
}

void SaveControl::set_fatal(Failure failure) {
  std::lock_guard lock(mutex_);
  fatal_ = std::move(failure);
}

void SaveControl::throw_if_fatal() const {
  std::lock_guard lock(mutex_);
  throw_again(fatal_);
}

void SaveControl::throw_if_failed() const {
  std::lock_guard lock(mutex_);
  throw_again(fatal_);
  throw_again(last_error_);
}

void SaveControl::use(Group* group) {
  std::lock_guard lock(mutex_);
  group_ = group;
}

void SaveControl::thread_failed(Failure failure) {
  locked([&] {
    fatal_ = std::move(failure);
    thread_ = Thread::failed;
  });
}

void SaveControl::thread_ended() {
  locked([&] { thread_ = Thread::ended; });
}

bool SaveControl::end(End how, Clock::duration patience) {
  std::unique_lock lock(mutex_);
  end_ = how;
  changed_.notify_all();
  const auto has_ended = [&] { return thread_ == Thread::ended; };
  const bool in_time = how == End::close && changed_.wait_for(lock, patience, has_ended);
  if (!in_time && group_) group_->cancel();
  const bool ended = changed_.wait_for(lock, kLastCall, has_ended);
  if (!ended) end_ = End::give_up;
  return ended;
}

bool SaveControl::is_closed() const {
  std::lock_guard lock(mutex_);
  return end_ == End::close;
}

}  // namespace distdl::checkpoint
