// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <ctime>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <fmt/chrono.h>
#include <sys/stat.h>
#include <unistd.h>

#include <distdl/agent/processes.hpp>
#include <distdl/base/clock.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/file_descriptor.hpp>
#include <distdl/base/log.hpp>
#include <distdl/base/process.hpp>
#include <distdl/base/process_age.hpp>
#include <distdl/base/random.hpp>
#include <distdl/base/signals.hpp>
#include <distdl/launch/folder_lock.hpp>
#include <distdl/launch/requeue.hpp>
#include <distdl/slurm/allocation.hpp>
#include <distdl/slurm/scheduler.hpp>

namespace distdl::launch {
namespace {
using namespace std::chrono_literals;

constexpr const char* kName = "LOCK";
constexpr std::size_t kLargest = 4096;  ///< bytes of the file
constexpr auto kRenewEvery = 5s;

/// Slurm's answer about the holder's job.
struct JobAnswer {
  bool is_known = false;  ///< Slurm answered
  std::optional<slurm::JobRecord> record = {};
};

JobAnswer ask_about(const Holder& holder) try {
  return {true, slurm::scheduler().job(holder.job, slurm::Freshness::now)};
} catch (const SchedulerError& error) {
  log(Severity::warning, "{}", error.what());
  return {};
}

/// Another job of the same cluster: Slurm knows about it.
bool is_another_job(const Holder& holder, const Holder& self) {
  return !holder.job.empty() && !self.job.empty() && holder.cluster == self.cluster && holder.job != self.job;
}

bool job_is_gone(const JobAnswer& answer, std::chrono::seconds age) {
  if (!answer.is_known) return age > kLongestSilence;
  if (!answer.record || answer.record->is_inactive()) return true;
  return answer.record->state != "SUSPENDED" && age > kLongestSilence;
}

/// True if the job has been ended, but not yet on all of its nodes, or has just gone. `otherwise`: the result if Slurm
/// does not answer.
bool job_is_ending(const JobAnswer& answer, bool otherwise) {
  if (!answer.is_known) return otherwise;
  return !answer.record || answer.record->state == "COMPLETING" || answer.record->is_inactive();
}

/// The lock as it was found.
struct Found {
  std::optional<Holder> holder;   ///< nothing: the text of the file is damaged
  std::chrono::nanoseconds time;  ///< time of the last renewal, since 1970
  std::chrono::seconds age{};     ///< time since the last renewal
};

bool is_same(const Found& one, const Found& other) {
  if (one.holder && other.holder) return one.holder->nonce == other.holder->nonce;
  return !one.holder && !other.holder && one.time == other.time;
}

/// Name of a file beside the lock that only this start uses.
std::string aside(const std::string& nonce) {
  return fmt::format(".{}-{}", kName, nonce);
}

/// Seconds since 1970 as the file system counts them, which may be another machine's clock.
std::int64_t now_of(int folder, const std::string& nonce) {
  const std::string name = aside(nonce);
  FileDescriptor file(::openat(folder, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  struct stat info {};
  const bool known = file && ::fstat(file.get(), &info) == 0;
  if (file) ::unlinkat(folder, name.c_str(), 0);
  return known ? info.st_mtim.tv_sec : whole_seconds_since_1970();
}

std::optional<Holder> read_holder(int file) {
  std::string text(kLargest, '\0');
  const ssize_t size = ::pread(file, text.data(), text.size(), 0);
  if (size <= 0) return std::nullopt;
  text.resize(static_cast<std::size_t>(size));
  return holder_from(text);
}

/// The lock, without its age; nothing if there is none. Throws StorageError if it is no file, or cannot be read.
std::optional<Found> read_lock(int folder, const std::string& name = kName) {
  const FileDescriptor file(::openat(folder, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  require<StorageError>(file || errno == ENOENT, "cannot open the run folder's {}: {}; remove it if it is not a file",
                        kName, errno_text(errno));
  if (!file) return std::nullopt;
  struct stat info {};
  require<StorageError>(::fstat(file.get(), &info) == 0 && S_ISREG(info.st_mode),
                        "the run folder's {} is not a file; remove it", kName);
  return Found{read_holder(file.get()),
               std::chrono::seconds(info.st_mtim.tv_sec) + std::chrono::nanoseconds(info.st_mtim.tv_nsec)};
}

std::chrono::seconds age_of(const Found& found, int folder, const std::string& nonce) {
  const auto time = std::chrono::floor<std::chrono::seconds>(found.time);
  return std::max(0s, std::chrono::seconds(now_of(folder, nonce)) - time);
}

/// False if there is a file of this name already. Throws StorageError.
bool create_lock(int folder, const Holder& self, const std::string& name = kName) {
  FileDescriptor file(::openat(folder, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644));
  if (!file && errno == EEXIST) return false;
  const std::string text = to_text(self);
  if (file && ::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
      ::fsync(file.get()) == 0)
    return true;
  const int error = errno;
  if (file) ::unlinkat(folder, name.c_str(), 0);
  throw StorageError(errno_text(error));
}

/// Removes the lock if it is still the one that was found. Another start may have replaced it meanwhile: its lock is
/// put back, unless a third start has made another.
void remove_lock(int folder, const Found& found, const std::string& nonce) {
  const std::string name = aside(nonce);
  if (::renameat(folder, kName, folder, name.c_str()) != 0) {
    require<StorageError>(errno == ENOENT, "{}", errno_text(errno));
    return;
  }
  const auto taken = read_lock(folder, name);
  const bool is_wrong = taken && !is_same(*taken, found);
  if (is_wrong && ::linkat(folder, name.c_str(), folder, kName, 0) != 0 && errno != EEXIST)
    ::renameat(folder, name.c_str(), folder, kName);  // a file system without hard links
  ::unlinkat(folder, name.c_str(), 0);
}

std::string describe(const Found& found) {
  if (!found.holder) return fmt::format("its {} is being written or is damaged", kName);
  const Holder& holder = *found.holder;
  return fmt::format("host {}, pid {}, {}, since {:%Y-%m-%d %H:%M:%S} UTC, last renewed {} s ago", holder.host,
                     holder.pid,
                     holder.job.empty() ? "no job" : fmt::format("job {} (restart {})", holder.job, holder.restart),
                     fmt::gmtime(static_cast<std::time_t>(holder.since)), found.age.count());
}
}  // namespace

Holder Holder::self() {
  std::error_code unknown;
  Holder self;
  self.host = host_name();
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), self.boot);
  self.pid_space = std::filesystem::read_symlink("/proc/self/ns/pid", unknown).string();
  self.pid = ::getpid();
  self.started = start_of_process(self.pid).value_or(0);
  self.cluster = slurm::name_of_cluster();
  if (const auto job = slurm::current_allocation()) {
    self.job = job->called();
    self.restart = job->restart;
  }
  self.since = whole_seconds_since_1970();
  self.nonce = random_hex(16);
  return self;
}

std::string to_text(const Holder& holder) {
  return fmt::format(
      "host={}\nboot={}\npid_space={}\npid={}\nstarted={}\ncluster={}\njob={}\nrestart={}\nsince={}\nnonce={}\n",
      holder.host, holder.boot, holder.pid_space, holder.pid, holder.started, holder.cluster, holder.job,
      holder.restart, holder.since, holder.nonce);
}

std::optional<Holder> holder_from(const std::string& text) try {
  std::map<std::string, std::string> fields;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const auto equals = line.find('=');
    const bool printable = std::all_of(line.begin(), line.end(), [](char c) { return c >= ' ' && c <= '~'; });
    if (equals == std::string::npos || !printable) return std::nullopt;
    fields[line.substr(0, equals)] = line.substr(equals + 1);
  }
  const auto number = [&](const char* name) { return static_cast<std::int64_t>(std::stoll(fields.at(name))); };
  constexpr std::int64_t kLastSecond = 253402300799;  // of the year 9999
  Holder holder{fields.at("host"),    fields.at("boot"), fields.at("pid_space"), number("pid"),   number("started"),
                fields.at("cluster"), fields.at("job"),  number("restart"),      number("since"), fields.at("nonce")};
  return holder.nonce.empty() || holder.since < 0 || holder.since > kLastSecond ? std::nullopt : std::optional(holder);
} catch (const std::logic_error&) {  // a field is missing, or no number
  return std::nullopt;
}

namespace {
/// As is_gone(). `ask`: about another job.
template <class Ask>
bool is_gone(const Holder& holder, const Holder& self, std::chrono::seconds age, Ask&& ask) {
  const bool same_cluster = !holder.job.empty() && !self.job.empty() && holder.cluster == self.cluster;
  if (same_cluster && holder.job == self.job && holder.restart < self.restart) return true;
  if (!holder.boot.empty() && !holder.pid_space.empty() && holder.host == self.host && holder.boot == self.boot &&
      holder.pid_space == self.pid_space)
    return start_of_process(holder.pid) != holder.started;
  if (is_another_job(holder, self)) return job_is_gone(ask(), age);
  return age > kLongestSilence;
}

/// Slurm's answers about the jobs of the holders that a wait for the folder meets, each asked for less and less often.
class HolderJobs {
 public:
  const JobAnswer& of(const Holder& holder) {
    if (holder.nonce != nonce_) pauses_ = BackOff(1s, 5s);
    if (holder.nonce != nonce_ || again_.expired()) {
      answer_ = ask_about(holder);
      again_ = Deadline::after(pauses_.next());
      nonce_ = holder.nonce;
    }
    return answer_;
  }

 private:
  std::string nonce_;
  JobAnswer answer_;
  BackOff pauses_{1s, 5s};
  Deadline again_ = Deadline::after(0s);
};
}  // namespace

bool is_gone(const Holder& holder, const Holder& self, std::chrono::seconds age) {
  return is_gone(holder, self, age, [&] { return ask_about(holder); });
}

struct FolderLock::Impl {
  Holder self = Holder::self();
  FileDescriptor folder;
  std::atomic<bool> is_lost = false;
  std::mutex mutex;
  std::condition_variable_any wake;
  std::jthread renewer;  // the last member: ends first

  std::optional<Found> find() const {
    auto found = read_lock(folder.get());
    if (found) found->age = age_of(*found, folder.get(), self.nonce);
    return found;
  }
  std::chrono::milliseconds pause_after(const std::optional<Found>& found) const {
    if (self.job.empty()) return 50ms;
    return found && found->holder ? 1000ms : 250ms;
  }
  bool is_left_behind(const Found& found, HolderJobs& jobs) const {
    if (!found.holder) return found.age > kLongestSilence;
    return is_gone(*found.holder, self, found.age, [&] { return jobs.of(*found.holder); });
  }
  /// `is_ending`: job_is_ending() of the holder's job, when it was seen last.
  bool may_end_soon(const Found& found, HolderJobs& jobs, bool& is_ending) const {
    if (!found.holder) return true;
    is_ending = is_another_job(*found.holder, self) && job_is_ending(jobs.of(*found.holder), is_ending);
    return is_ending;
  }
  [[noreturn]] static void refuse(const std::filesystem::path& path, const Found& found) {
    throw StorageError(
        fmt::format(
            "another \"distdl run\" uses the run folder \"{}\": {}; wait until it ends, stop it, choose another "
            "run.dir, or take the folder from it with --take-over",
            path.string(), describe(found)),
        ExitCode::superseded);
  }
  static void tell_of_wait(const std::filesystem::path& path, const Found& found) {
    log(Severity::warning, "run folder \"{}\": {}; waiting, for up to {} s, until {}", path.string(), describe(found),
        kLongestSilence.count(), found.holder ? "that job has ended completely" : "its holder is known");
  }
  /// False if a signal asks to stop first. Throws StorageError.
  bool take(const std::filesystem::path& path, bool take_over) const {
    // Other starts may create and remove the lock meanwhile, or just write it. A restarted job may find an incomplete
    // lock of a machine that went down while it wrote. It must wait until that is old, because nothing else would try
    // again later.
    const auto patience = Deadline::after(self.job.empty() ? 1s : kLongestSilence + 5s);
    constexpr int kMostRemoved = 20;
    bool is_told = false, is_ending = false;
    HolderJobs jobs;
    for (int removed = 0;;) {
      if (create_lock(folder.get(), self)) return true;
      const auto found = find();
      const bool gone = found && is_left_behind(*found, jobs);
      if (gone || (found && take_over)) {
        require<StorageError>(++removed <= kMostRemoved, "it is created again and again");
        if (!gone) log(Severity::warning, "taking over \"{}\" from another start: {}", path.string(), describe(*found));
        remove_lock(folder.get(), *found, self.nonce);
        is_ending = false;
        continue;
      }
      if (found && (patience.expired() || !may_end_soon(*found, jobs, is_ending))) refuse(path, *found);
      if (stop_is_pending()) return false;
      require<StorageError>(!patience.expired(), "it is created again and again, or is damaged");
      if (found && !self.job.empty() && !std::exchange(is_told, true)) tell_of_wait(path, *found);
      std::this_thread::sleep_for(pause_after(found));
    }
  }
  /// Renews the file's time and detects a start that has taken over. Makes the file again if it was removed or damaged.
  void renew() try {
    if (create_lock(folder.get(), self)) return;
    const auto found = read_lock(folder.get());
    if (!found) return;
    const std::string name = aside(self.nonce);
    if (found->holder && found->holder->nonce != self.nonce)
      is_lost = true;
    else if (found->holder)
      ::utimensat(folder.get(), kName, nullptr, AT_SYMLINK_NOFOLLOW);
    else if (age_of(*found, folder.get(), self.nonce) > kRenewEvery && create_lock(folder.get(), self, name))
      ::renameat(folder.get(), name.c_str(), folder.get(), kName);  // nobody is just writing it
  } catch (const StorageError&) {  // the next time may do better; the run goes on meanwhile
  }
  void keep_renewing(const std::stop_token& stop) {
    std::unique_lock lock(mutex);
    while (!wake.wait_for(lock, stop, kRenewEvery, [&] { return stop.stop_requested(); })) renew();
  }
};

FolderLock::FolderLock(const std::filesystem::path& folder, bool take_over) : impl_(std::make_unique<Impl>()) {
  impl_->folder.reset(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  require<StorageError>(static_cast<bool>(impl_->folder), "cannot open the run folder \"{}\": {}", folder.string(),
                        errno_text(errno));
  try {
    if (!impl_->take(folder, take_over)) return;
  } catch (const StorageError& error) {
    if (error.exit_code() == ExitCode::superseded) throw;
    log(Severity::warning, "cannot write \"{}\": {}; another start in this folder is not noticed at once",
        (folder / kName).string(), error.what());
    return;
  }
  const SignalsBlocked in_renewer;  // they are for the main thread
  impl_->renewer = std::jthread([this](const std::stop_token& stop) { impl_->keep_renewing(stop); });
}

FolderLock::~FolderLock() {
  if (!impl_->renewer.joinable()) return;
  impl_->renewer.request_stop();
  impl_->renewer.join();
  try {
    const auto found = read_lock(impl_->folder.get());
    if (found && found->holder && found->holder->nonce == impl_->self.nonce) ::unlinkat(impl_->folder.get(), kName, 0);
  } catch (const StorageError&) {  // a start after this one will find that its holder is gone
  }
}

bool FolderLock::is_lost() const {
  return impl_->is_lost;
}

bool FolderLock::check() {
  if (impl_->renewer.joinable()) impl_->renew();
  return impl_->is_lost;
}

}  // namespace distdl::launch
