// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cerrno>

#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <distdl/base/errors.hpp>
#include <distdl/base/shortage.hpp>
#include <distdl/comm/ucx/idle.hpp>
#include <distdl/comm/ucx/ucx_handles.hpp>

namespace distdl::comm {
namespace {

// Falling asleep and waking up costs about 9 us a message; spin for a few times as long.
constexpr std::chrono::microseconds kSpin{30};
constexpr std::chrono::microseconds kYield{100};
constexpr Milliseconds kLook{1};
// Others ran in between: here are more threads than processors, and spinning only takes time from the one waited for.
constexpr std::chrono::microseconds kLongYield{5};
// How soon to find out.
constexpr std::chrono::microseconds kProbe{4};
constexpr std::chrono::nanoseconds kLongestSleep = Milliseconds(10);
// While memory is polled, in part of the time already waited.
constexpr int kPart = 16;
constexpr std::chrono::nanoseconds kShortestNap = std::chrono::microseconds(50);
constexpr std::chrono::nanoseconds kLongestNap = Milliseconds(1);
constexpr std::uint64_t kWorker = ~std::uint64_t{0}, kWake = kWorker - 1;

void add(int epoll, int descriptor, std::uint64_t data) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = data;
  if (::epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &event) != 0) fail_call<CommError>("epoll_ctl", errno);
}

}  // namespace

bool has_ended(int pid) {
  const FileDescriptor process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!process) return errno == ESRCH;
  pollfd state{process.get(), POLLIN, 0};
  return ::poll(&state, 1, 0) > 0;
}

Idle::Idle(ucp_worker_h worker) : worker_(worker), epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
  require_call<CommError>(static_cast<bool>(epoll_), "epoll_create1");
  wake_ = FileDescriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  require_call<CommError>(static_cast<bool>(wake_), "eventfd");
  add(epoll_.get(), event_descriptor(worker), kWorker);
  add(epoll_.get(), wake_.get(), kWake);
}

/// It fails only where so many wakes are unread that one more makes no difference.
void Idle::wake() const noexcept {
  constexpr std::uint64_t kOne = 1;
  [[maybe_unused]] const auto written = ::write(wake_.get(), &kOne, sizeof kOne);
}

void Idle::watch(Rank rank, int pid) {
  FileDescriptor process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!process) {
    if (errno == ESRCH) ended_.push_back(rank);
    return;  // an old kernel: then UCX's keepalive reports it, a second later
  }
  add(epoll_.get(), process.get(), static_cast<std::uint64_t>(rank.value));
  watched_.push_back({rank, std::move(process)});
}

void Idle::unwatch(Rank rank) {
  // Closing its only descriptor takes a process out of the epoll set.
  std::erase_if(watched_, [&](const Watched& one) { return one.rank == rank; });
}

void Idle::restart() {
  since_ = Clock::now();
  // A rank that is never idle must still see a peer die.
  if (since_ - looked_ > kLook) look({});
}

bool Idle::is_short() const {
  return Clock::now() - since_ < kSpin;
}

void Idle::pause(bool polls, bool asleep) {
  const auto now = Clock::now();
  if (now - looked_ > kLook) look({});
  if (woken_) return;
  if (!asleep && !crowded_ && now - since_ < kSpin && now - yielded_ < kProbe) return;
  if (!asleep && now - since_ < kYield) {
    ::sched_yield();
    yielded_ = Clock::now();
    crowded_ = yielded_ - now > kLongYield;
    return;
  }
  const ucs_status_t status = ucp_worker_arm(worker_);
  if (status == UCS_ERR_BUSY) return;  // something came in between, or waits to be sent
  check_ucx(status, "ucp_worker_arm");
  const std::chrono::nanoseconds part = (now - since_) / kPart;
  look(polls ? std::clamp(part, kShortestNap, kLongestNap) : kLongestSleep);
}

void Idle::look(std::chrono::nanoseconds wait) {
  // epoll_wait itself knows milliseconds only.
  if (wait.count() > 0) {
    pollfd all{epoll_.get(), POLLIN, 0};
    const timespec time{wait.count() / 1'000'000'000, wait.count() % 1'000'000'000};
    if (::ppoll(&all, 1, &time, nullptr) < 0 && errno != EINTR)
      throw CommError(fmt::format("ppoll: {}", errno_text(errno)));
  }
  std::array<epoll_event, 8> events{};
  const int count = ::epoll_wait(epoll_.get(), events.data(), events.size(), 0);
  if (count < 0 && errno != EINTR) throw CommError(fmt::format("epoll_wait: {}", errno_text(errno)));
  looked_ = Clock::now();
  new_look_ = true;
  for (int i = 0; i < count; ++i) {
    if (events[i].data.u64 == kWorker) continue;
    if (events[i].data.u64 == kWake) {
      std::uint64_t wakes = 0;
      woken_ = ::read(wake_.get(), &wakes, sizeof wakes) == sizeof wakes || woken_;
      continue;
    }
    const Rank rank(static_cast<int>(events[i].data.u64));
    ended_.push_back(rank);
    unwatch(rank);
  }
}

}  // namespace distdl::comm
