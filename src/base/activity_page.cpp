// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <distdl/base/activity_page.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/shortage.hpp>

namespace distdl {
namespace {
constexpr std::array<const char*, kRankPhases> kNames{
    "idle",     "start", "connect",   "restore",  "data", "compute",      "all-reduce", "update", "report",  "copy",
    "snapshot", "save",  "last save", "evaluate", "end",  "end of round", "corrupted",  "read",   "protect", "write"};

template <std::size_t N>
std::string text_of(const std::array<std::atomic<std::uint64_t>, N>& words) {
  std::array<char, N * sizeof(std::uint64_t) + 1> text{};
  for (std::size_t i = 0; i < N; ++i) {
    const std::uint64_t word = words[i].load(std::memory_order_acquire);
    std::memcpy(text.data() + i * sizeof word, &word, sizeof word);
  }
  return text.data();
}

Clock::time_point time_of(const std::atomic<std::int64_t>& nanoseconds) {
  const std::chrono::nanoseconds time(nanoseconds.load(std::memory_order_acquire));
  return Clock::time_point(std::chrono::duration_cast<Clock::duration>(time));
}

std::optional<ThreadSeen::Wait> wait_of(const ThreadActivity& activity) {
  if (activity.wait_since.load(std::memory_order_acquire) == 0) return std::nullopt;
  const std::uint32_t awaited = activity.awaited.load(std::memory_order_acquire);
  return ThreadSeen::Wait{text_of(activity.operation), activity.bytes.load(std::memory_order_acquire),
                          awaited ? std::optional(Rank(static_cast<int>(awaited) - 1)) : std::nullopt,
                          time_of(activity.wait_since)};
}

/// While the thread may be writing. Each value is acquired, so that a second look comes after the first.
ThreadSeen read(const ThreadActivity& activity, std::size_t place) {
  ThreadSeen seen;
  seen.place = place;
  seen.thread = activity.thread.load(std::memory_order_acquire);
  seen.name = text_of(activity.name);
  // The process may have written anything.
  const auto phase = std::min<std::size_t>(activity.phase.load(std::memory_order_acquire), kRankPhases - 1);
  seen.phase = static_cast<RankPhase>(phase);
  seen.entered = activity.entered.load(std::memory_order_acquire);
  seen.since = time_of(activity.since);
  if (const auto step = activity.step.load(std::memory_order_acquire); step >= 0) seen.step = Step(step);
  seen.wait = wait_of(activity);
  seen.file = text_of(activity.file);
  seen.count = activity.counts[phase].load(std::memory_order_acquire);
  return seen;
}
}  // namespace

const char* name_of(RankPhase phase) {
  return kNames[static_cast<std::size_t>(phase)];
}

void store_text(std::string_view text, std::atomic<std::uint64_t>* words, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    std::uint64_t word = 0;
    const std::size_t begin = std::min(text.size(), i * sizeof word);
    const std::size_t room = sizeof word - (i + 1 == count ? 1 : 0);
    std::memcpy(&word, text.data() + begin, std::min(text.size() - begin, room));
    words[i].store(word, std::memory_order_relaxed);
  }
}

ActivityMemory::ActivityMemory() : descriptor_(::memfd_create("distdl-activity", MFD_CLOEXEC)) {
  require_call<SchedulerError>(static_cast<bool>(descriptor_), "cannot make memory for the activity of a rank");
  const bool sized = ::ftruncate(descriptor_.get(), sizeof(ActivityPage)) == 0;
  require_call<StorageError>(sized, "cannot size the memory for the activity of a rank");  // ulimit -f
  void* memory = ::mmap(nullptr, sizeof(ActivityPage), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_.get(), 0);
  require_call<SchedulerError>(memory != MAP_FAILED, "cannot map the memory for the activity of a rank");
  page_ = static_cast<ActivityPage*>(memory);
}

ActivityMemory::~ActivityMemory() {
  ::munmap(page_, sizeof(ActivityPage));
}

std::map<std::string, std::string> ActivityMemory::variables() const {
  return {{"DISTDL_ACTIVITY", std::to_string(descriptor_.get())}};
}

std::vector<ThreadSeen> ActivityMemory::look() const {
  constexpr int kTries = 5;
  std::vector<ThreadSeen> threads;
  if (page_->magic.load(std::memory_order_acquire) != ActivityPage::kMagic) return threads;
  for (std::size_t place = 0; place < ActivityPage::kThreads; ++place) {
    ThreadSeen seen = read(page_->threads[place], place);
    for (int i = 0; i < kTries; ++i)
      if (ThreadSeen again = read(page_->threads[place], place); again == std::exchange(seen, again)) break;
    if (seen.thread != 0) threads.push_back(std::move(seen));
  }
  return threads;
}

std::vector<std::uint64_t> ActivityMemory::stack(pid_t process, const ThreadSeen& thread, Milliseconds timeout) const {
  const int number = page_->signal.load(std::memory_order_acquire);
  if (number < SIGRTMIN || number > SIGRTMAX) return {};
  const std::lock_guard lock(asking_);
  ThreadActivity& activity = page_->threads.at(thread.place);
  const std::uint32_t asked = activity.stack_asked.load(std::memory_order_relaxed) + 1;
  activity.stack_asked.store(asked, std::memory_order_release);
  siginfo_t info{};
  info.si_code = SI_QUEUE;
  info.si_pid = ::getpid();
  info.si_uid = ::getuid();
  info.si_value.sival_int = static_cast<int>(thread.place);
  if (::syscall(SYS_rt_tgsigqueueinfo, process, thread.thread, number, &info) != 0) return {};
  const auto deadline = Deadline::after(timeout);
  while (activity.stack_told.load(std::memory_order_acquire) != asked) {
    if (deadline.expired()) return {};
    std::this_thread::sleep_for(Milliseconds(1));
  }
  std::vector<std::uint64_t> frames(
      std::min<std::size_t>(activity.depth.load(std::memory_order_relaxed), ThreadActivity::kFrames));
  for (std::size_t i = 0; i < frames.size(); ++i) frames[i] = activity.frames[i].load(std::memory_order_relaxed);
  return frames;
}

}  // namespace distdl
