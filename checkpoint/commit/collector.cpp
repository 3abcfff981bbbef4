// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <distdl/base/log.hpp>
#include <distdl/checkpoint/commit/collector.hpp>
#include <distdl/checkpoint/format/layout.hpp>
#include <distdl/checkpoint/format/verify.hpp>

namespace distdl::checkpoint {
namespace {
constexpr auto kPatience = std::chrono::seconds(30);
constexpr auto kRoomPatience = std::chrono::minutes(1);
constexpr auto kCollectorPatience = std::chrono::seconds(5);  // for one system call to come back

/// One that still gets its turn: what waits for an idle disk might never go. Nothing depends on it, so that failing
/// does not matter.
void take_low_priority() {
  constexpr int kLower = 10, kLowest = 19, kWhoProcess = 1, kBestEffort = 2, kClassShift = 13,
                kLast = 7;  // linux/ioprio.h
  auto self = static_cast<id_t>(::syscall(SYS_gettid));
  const int own = ::getpriority(PRIO_PROCESS, self);  // on Linux this means the one thread
  ::setpriority(PRIO_PROCESS, self, std::min(own + kLower, kLowest));
  ::syscall(SYS_ioprio_set, kWhoProcess, 0, (kBestEffort << kClassShift) | kLast);
}

/// Forwards calls that read and delete until stop(). Afterwards each call fails, so that a long check ends soon.
class Interruptible final : public FileSystem {
 public:
  explicit Interruptible(FileSystem& files) : files_(files) {}
  void stop() { stopped_ = true; }
  bool stopped() const { return stopped_; }

  int open(const char* path, int flags, mode_t mode) override {
    return refuses() ? -1 : files_.open(path, flags, mode);
  }
  int close(int descriptor) override { return files_.close(descriptor); }
  ssize_t pwrite(int descriptor, const std::byte* data, std::size_t bytes, off_t offset) override {
    return refuses() ? -1 : files_.pwrite(descriptor, data, bytes, offset);
  }
  ssize_t pread(int descriptor, std::byte* data, std::size_t bytes, off_t offset) override {
    return refuses() ? -1 : files_.pread(descriptor, data, bytes, offset);
  }
  int fsync(int descriptor) override { return refuses() ? -1 : files_.fsync(descriptor); }
  int rename(const char* from, const char* to, unsigned flags) override { return files_.rename(from, to, flags); }
  int unlink(const char* path) override { return refuses() ? -1 : files_.unlink(path); }
  int rmdir(const char* path) override { return refuses() ? -1 : files_.rmdir(path); }

 private:
  bool refuses() {
    errno = ECANCELED;
    return stopped_;
  }

  FileSystem& files_;
  std::atomic<bool> stopped_{false};
};
}  // namespace

struct Collector::Shared {
  Shared(FileSystem& inner, Path where, Rule what) : files(inner), root(std::move(where)), rule(what) {}

  void run();
  void collect_garbage(Step just_saved);
  bool is_good(Step step, const Path& folder);
  void remove(const RetentionDecision& decision);
  Rule rule_now(std::int64_t keep);

  Interruptible files;
  const Path root;
  const Rule rule;

  std::mutex mutex;
  std::condition_variable changed;
  // Guarded by the mutex.
  std::set<Step> good;
  std::optional<Step> audited;      ///< Rule::audited
  std::optional<Step> asked, last;  ///< last: that this run saved, or goes on from
  bool busy = false, ending = false, gone = false;
  std::thread thread;
};

void Collector::Shared::run() {
  take_low_priority();
  std::unique_lock lock(mutex);
  for (;;) {
    changed.wait(lock, [&] { return asked || ending; });
    if (!asked) break;
    Step step = *asked;
    asked.reset();
    busy = true;
    lock.unlock();
    collect_garbage(step);
    lock.lock();
    busy = false;
    changed.notify_all();
  }
  gone = true;
  changed.notify_all();
}

bool Collector::Shared::is_good(Step step, const Path& folder) {
  {
    std::lock_guard lock(mutex);
    // Its bytes were checked before; whether it is still whole costs one check of the manifest.
    std::error_code ignored;
    if (good.contains(step)) return std::filesystem::exists(folder / kManifestName, ignored);
  }
  if (!verify_folder(files, folder).findings.empty()) return false;
  std::lock_guard lock(mutex);
  good.insert(step);
  return true;
}

void Collector::Shared::remove(const RetentionDecision& decision) {
  {
    std::lock_guard lock(mutex);
    good.erase(decision.step);
  }
  if (!collect(files, root, decision))
    log(Severity::warning, "the old checkpoint of step {} was deleted only in part", decision.step);
}

Rule Collector::Shared::rule_now(std::int64_t keep) {
  std::lock_guard lock(mutex);
  return {keep, rule.keep_every, audited};
}

void Collector::Shared::collect_garbage(Step just_saved) try {
  auto decisions = decide_retention(files, root, rule_now(rule.keep), just_saved,
                                    [&](Step step, const Path& folder) { return is_good(step, folder); });
  for (auto oldest = decisions.rbegin(); oldest != decisions.rend() && !files.stopped(); ++oldest)
    if (!oldest->stays) remove(*oldest);
} catch (const std::exception& error) {
  log(Severity::warning, "old checkpoints were not deleted: {}", error.what());
}

Collector::Collector(FileSystem& files, Path root, Rule rule)
    : shared_(std::make_shared<Shared>(files, std::move(root), rule)) {}

Collector::~Collector() {
  Shared& shared = *shared_;
  if (!shared.thread.joinable()) return;
  if (!settle(kPatience)) {
    log(Severity::warning, "old checkpoints in \"{}\" remain; the next run deletes them", shared.root.string());
    shared.files.stop();
  }
  std::unique_lock lock(shared.mutex);
  shared.asked.reset();
  shared.ending = true;
  shared.changed.notify_all();
  bool gone = shared.changed.wait_for(lock, kCollectorPatience, [&] { return shared.gone; });
  lock.unlock();
  if (gone)
    shared.thread.join();
  else
    shared.thread.detach();  // in a system call that does not come back; what it needs stays with it
}

void Collector::verified(Step step) {
  std::lock_guard lock(shared_->mutex);
  shared_->good.insert(step);
  shared_->last = step;
}

void Collector::keep_newest_until(Step step) {
  std::lock_guard lock(shared_->mutex);
  shared_->audited = step;
}

void Collector::saved(Step step) {
  std::lock_guard lock(shared_->mutex);
  shared_->good.insert(step);
  shared_->last = step;
  if (shared_->files.stopped()) return;
  shared_->asked = step;
  shared_->changed.notify_all();
  if (!shared_->thread.joinable()) shared_->thread = std::thread([shared = shared_] { shared->run(); });
}

namespace {
/// Sums the bytes of all files; a file that cannot be inspected counts as 0.
std::uint64_t bytes_in(const Path& folder) {
  std::uint64_t sum = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error))
    if (const auto bytes = entry.file_size(error); !error) sum += bytes;
  return sum;
}
}  // namespace

int Collector::make_room(const std::function<bool(std::uint64_t)>& enough, int most) {
  settle(kRoomPatience);
  Shared& shared = *shared_;
  if (shared.files.stopped() || enough(0)) return 0;
  const auto last = [&] {
    std::lock_guard lock(shared.mutex);
    return shared.last;
  }();
  auto decisions = decide_retention(shared.files, shared.root, shared.rule_now(1), last,
                                    [&](Step step, const Path& folder) { return shared.is_good(step, folder); });
  std::erase_if(decisions, [](const RetentionDecision& decision) { return decision.stays; });
  std::uint64_t bytes = 0;
  for (const auto& decision : decisions) bytes += bytes_in(decision.folder);
  if (!enough(bytes)) return 0;
  int gone = 0;
  for (auto oldest = decisions.rbegin(); oldest != decisions.rend() && gone < most && (gone == 0 || !enough(0));
       ++oldest) {
    log(Severity::warning,
        "\"{}\" has too little free space: the checkpoint of step {} is deleted, although checkpoint.keep = {} covers "
        "it",
        shared.root.string(), oldest->step, shared.rule.keep);
    oldest->why = "the file system had too little free space";
    shared.remove(*oldest);
    ++gone;
  }
  return gone;
}

void Collector::stop() {
  shared_->files.stop();
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->asked.reset();
  }
  settle(kCollectorPatience);
}

bool Collector::settle(Clock::duration patience) {
  std::unique_lock lock(shared_->mutex);
  return shared_->changed.wait_for(lock, patience, [&] { return !shared_->asked && !shared_->busy; });
}

}  // namespace distdl::checkpoint
