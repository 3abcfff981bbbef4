// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <utility>

#include <sys/eventfd.h>
#include <unistd.h>

#include <distdl/base/activity.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/shortage.hpp>
#include <distdl/program/rounds.hpp>

namespace distdl::program {
namespace {
using namespace std::chrono_literals;

std::span<const std::byte> bytes_of(const RankReport& report) {
  return std::as_bytes(std::span(&report, 1));
}
}  // namespace

Rounds::Rounds(std::unique_ptr<comm::Communicator> communicator)
    : communicator_(std::move(communicator)), news_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  require_call<SchedulerError>(news_.get() >= 0, "cannot make an event descriptor");
  thread_ = std::jthread([this](const std::stop_token& stop) {
    try {
      run(stop);
    } catch (...) {
      const std::lock_guard lock(mutex_);
      failure_ = std::current_exception();
    }
    tell();
  });
}

Rounds::~Rounds() {
  {
    const std::lock_guard lock(mutex_);
    leaves_ = true;
  }
  thread_.request_stop();
  changed_.notify_all();
}

void Rounds::tell() {
  const std::uint64_t one = 1;
  (void)!::write(news_.get(), &one, sizeof one);  // a full counter is news enough
}

void Rounds::set(const RankReport& mine) {
  const std::lock_guard lock(mutex_);
  mine_ = mine;
}

std::vector<RankReport> Rounds::newest() const {
  std::uint64_t count = 0;
  (void)!::read(news_.get(), &count, sizeof count);
  const std::lock_guard lock(mutex_);
  return newest_;
}

void Rounds::check() const {
  const std::lock_guard lock(mutex_);
  if (failure_) std::rethrow_exception(failure_);
}

void Rounds::abort(const std::string& reason, ExitCode code) {
  {
    const std::lock_guard lock(mutex_);
    leaves_ = true;
    reason_ = reason;
    code_ = code;
  }
  thread_.request_stop();
  changed_.notify_all();
}

/// All ranks of a node wake at the same moments, so that they wait for each other as little as possible.
bool Rounds::pause() {
  const auto now = Clock::now().time_since_epoch();
  const auto next = Clock::time_point((now / kPeriod + 1) * std::chrono::duration_cast<Clock::duration>(kPeriod));
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, next, [this] { return leaves_; });
  return !leaves_;
}

void Rounds::run(const std::stop_token& stop) {
  const ShownThread shown("rounds");
  const auto size = static_cast<std::size_t>(communicator_->size());
  std::vector<RankReport> all(size);
  do {
    RankReport mine;
    {
      const std::lock_guard lock(mutex_);
      mine = mine_;
    }
    auto request = communicator_->all_gather(bytes_of(mine), std::as_writable_bytes(std::span(all)));
    if (!request.wait(stop)) {  // within comm.timeout_seconds, or it throws PeerLost
      request.cancel();
      break;
    }
    {
      const std::lock_guard lock(mutex_);
      newest_ = all;
    }
    tell();
    if (conclude(all).all_ended) return communicator_->close();
  } while (pause());
  const std::lock_guard lock(mutex_);
  if (!reason_.empty()) communicator_->abort(reason_, code_);
}

}  // namespace distdl::program
