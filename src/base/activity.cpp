// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>

#include <execinfo.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <distdl/base/activity.hpp>
#include <distdl/base/env.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/shortage.hpp>
#include <distdl/base/spans.hpp>

namespace distdl {
namespace {
constexpr const char* kVariable = "DISTDL_ACTIVITY";
constexpr auto kRelaxed = std::memory_order_relaxed;

ActivityPage* page = nullptr;  ///< set once, before other threads start
constinit thread_local ThreadActivity* own = nullptr;

std::int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count();
}

int stack_signal() {
  return SIGRTMIN + 7;
}

/// Stores the stack of the calling thread in the page. Calls only functions that a signal handler may call: backtrace()
/// was called before, so it loads nothing.
void tell_stack(int /*number*/, siginfo_t* info, void* /*context*/) {
  const auto place = static_cast<std::size_t>(info->si_value.sival_int);
  if (info->si_code != SI_QUEUE || place >= ActivityPage::kThreads) return;
  const int error = errno;
  ThreadActivity& activity = page->threads[place];
  std::array<void*, ThreadActivity::kFrames> frames{};
  const int depth = ::backtrace(frames.data(), static_cast<int>(frames.size()));
  for (int i = 0; i < depth; ++i)
    activity.frames[static_cast<std::size_t>(i)].store(
        reinterpret_cast<std::uintptr_t>(frames[static_cast<std::size_t>(i)]), kRelaxed);
  activity.depth.store(static_cast<std::uint32_t>(std::max(0, depth)), kRelaxed);
  activity.stack_told.store(activity.stack_asked.load(kRelaxed), std::memory_order_release);
  errno = error;
}

void handle_stack_signal() {
  std::array<void*, 1> frame{};
  ::backtrace(frame.data(), 1);  // loads the unwinder
  struct sigaction action {};
  action.sa_sigaction = &tell_stack;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  ::sigfillset(&action.sa_mask);
  const bool set = ::sigaction(stack_signal(), &action, nullptr) == 0;
  require<InternalError>(set, "cannot handle signal {}: {}", stack_signal(), errno_text(errno));
  page->signal.store(stack_signal(), std::memory_order_release);
}

void unblock_stack_signal() {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, stack_signal());
  ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

ActivityPage* mapped(int descriptor) {
  struct stat status {};
  const bool is_page = ::fcntl(descriptor, F_GET_SEALS) >= 0 && ::fstat(descriptor, &status) == 0 &&
                       status.st_size == sizeof(ActivityPage);
  require(is_page, "environment variable {}={} is no memory of distdl: only \"distdl run\" and \"distdl agent\" set it",
          kVariable, descriptor);
  void* memory = ::mmap(nullptr, sizeof(ActivityPage), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  require_call<SchedulerError>(memory != MAP_FAILED, "cannot map the memory for the activity of this rank");
  ::close(descriptor);
  return static_cast<ActivityPage*>(memory);
}

/// Takes a free place of the page for the calling thread and returns it; null if all are taken.
ThreadActivity* place_for(const char* name) {
  for (ThreadActivity& activity : page->threads) {
    std::int32_t nobody = 0;
    if (!activity.thread.compare_exchange_strong(nobody, -1)) continue;
    store_text(name, activity.name.data(), activity.name.size());
    activity.step.store(-1, kRelaxed);
    activity.wait_since.store(0, kRelaxed);
    activity.file[0].store(0, kRelaxed);
    activity.phase.store(0, kRelaxed);
    activity.since.store(now(), kRelaxed);
    activity.thread.store(::gettid(), std::memory_order_release);
    return &activity;
  }
  return nullptr;
}
}  // namespace

void show_activity() {
  const auto descriptor = env_integer(kVariable);
  if (!descriptor) return;
  require(*descriptor > STDERR_FILENO && *descriptor < 1 << 20, "environment variable {}={} is no descriptor",
          kVariable, *descriptor);
  page = mapped(static_cast<int>(*descriptor));
  handle_stack_signal();
  own = place_for("train");
  page->magic.store(ActivityPage::kMagic, std::memory_order_release);
}

ShownThread::ShownThread(const char* name) {
  if (!page || own) return;
  unblock_stack_signal();
  own = place_for(name);
  is_shown_ = own != nullptr;
}

ShownThread::~ShownThread() {
  if (!is_shown_) return;
  if (own) own->thread.store(0, std::memory_order_release);
  own = nullptr;
}

/// If the name is too long, its end is shown.
ShownFile::ShownFile(std::string_view file) noexcept {
  constexpr std::size_t kRoom = ThreadActivity::kFileWords * sizeof(std::uint64_t) - 1;
  if (file.size() > kRoom) file.remove_prefix(file.size() - kRoom);
  if (own) store_text(file, own->file.data(), own->file.size());
}

ShownFile::~ShownFile() {
  if (own) own->file[0].store(0, kRelaxed);
}

void enter_phase(RankPhase phase) noexcept {
  if (span_track != nullptr)
    span_track->enter(phase == RankPhase::idle ? nullptr : name_of(phase), static_cast<std::uint32_t>(phase));
  if (!own) return;
  const auto index = static_cast<std::size_t>(phase);
  own->phase.store(static_cast<std::uint32_t>(phase), kRelaxed);
  own->since.store(now(), kRelaxed);
  own->counts[index].store(own->counts[index].load(kRelaxed) + 1, kRelaxed);
  own->entered.store(own->entered.load(kRelaxed) + 1, kRelaxed);
}

void show_step(Step step) noexcept {
  if (own) own->step.store(step.value, kRelaxed);
}

void show_wait(const char* name, std::uint32_t sequence, std::uint64_t bytes, std::optional<Rank> awaited) noexcept {
  if (!own) return;
  std::array<char, ThreadActivity::kWords * sizeof(std::uint64_t)> text{};
  char* end = text.data() + std::min(std::strlen(name), text.size() - 1);
  std::memcpy(text.data(), name, static_cast<std::size_t>(end - text.data()));
  if (sequence != 0 && end + 1 < text.data() + text.size()) {
    *end++ = ' ';
    const auto [last, error] = std::to_chars(end, text.data() + text.size(), sequence);
    end = error == std::errc() ? last : end - 1;
  }
  const std::string_view operation(text.data(), static_cast<std::size_t>(end - text.data()));
  std::array<std::atomic<std::uint64_t>, ThreadActivity::kWords> words{};
  store_text(operation, words.data(), words.size());
  bool same = own->wait_since.load(kRelaxed) != 0;
  for (std::size_t i = 0; i < words.size(); ++i)
    same = same && words[i].load(kRelaxed) == own->operation[i].load(kRelaxed);
  own->awaited.store(awaited ? static_cast<std::uint32_t>(awaited->value) + 1 : 0, kRelaxed);
  if (same) return;
  store_text(operation, own->operation.data(), own->operation.size());
  own->bytes.store(bytes, kRelaxed);
  own->wait_since.store(now(), kRelaxed);
}

void show_wait_of(const char* thread) noexcept {
  if (!own) return;
  decltype(ThreadActivity::name) name{};
  store_text(thread, name.data(), name.size());
  const auto has_name = [&](const ThreadActivity& one) {
    return one.thread.load(kRelaxed) > 0 && std::ranges::equal(one.name, name, [](const auto& a, const auto& b) {
             return a.load(kRelaxed) == b.load(kRelaxed);
           });
  };
  const auto* const other = std::ranges::find_if(page->threads, has_name);
  if (other == page->threads.end() || other->wait_since.load(kRelaxed) == 0) return end_wait();
  for (std::size_t i = 0; i < ThreadActivity::kWords; ++i)
    own->operation[i].store(other->operation[i].load(kRelaxed), kRelaxed);
  own->awaited.store(other->awaited.load(kRelaxed), kRelaxed);
  own->bytes.store(other->bytes.load(kRelaxed), kRelaxed);
  own->wait_since.store(other->wait_since.load(kRelaxed), kRelaxed);
}

void end_wait() noexcept {
  if (own && own->wait_since.load(kRelaxed) != 0) own->wait_since.store(0, kRelaxed);
}

}  // namespace distdl
