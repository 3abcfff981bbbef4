// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <iterator>

#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <distdl/app/checks/signal_probe.hpp>
#include <distdl/base/clock.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/base/printable.hpp>
#include <distdl/base/process.hpp>
#include <distdl/base/random.hpp>
#include <distdl/base/regular_file.hpp>
#include <distdl/base/signals.hpp>
#include <distdl/files/own_folder.hpp>
#include <distdl/slurm/commands.hpp>
#include <distdl/slurm/environment.hpp>

namespace distdl::app {
namespace {
using namespace std::chrono_literals;
namespace fs = std::filesystem;

constexpr Milliseconds kCommandLimit = 10s;
constexpr Milliseconds kReadyLimit = 60s;    ///< until the tasks run
constexpr Milliseconds kDelivery = 10s;      ///< time for the delivery of a signal that this program sends
constexpr Milliseconds kWarningLimit = 45s;  ///< Slurm looks at time limits each 30 s
constexpr Milliseconds kQueueLimit = 600s;   ///< until the job starts
constexpr Milliseconds kTrialLimit = 150s;   ///< from its start to its end
constexpr Milliseconds kLook = 100ms;

std::string program() {
  std::error_code error;
  const auto path = fs::read_symlink("/proc/self/exe", error);
  require<InternalError>(!error, "cannot find this program's own file: {}", error.message());
  return path.string();
}

void append(const fs::path& file, const std::string& text) {
  const FileDescriptor out = open_to_append(resolved_place(file));
  const bool is_whole = ::write(out.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
  require<StorageError>(is_whole, "cannot write \"{}\"", file.string());
}

/// Writes down each signal that this process gets.
class Recorder {
 public:
  Recorder(const fs::path& folder, const std::string& part)
      : file_(folder / "processes" / fmt::format("{}-{}-{}", part, ::getpid(), host_name())) {
    append(file_, "");
  }
  void record(int number) { append(file_, fmt::format("{} {:.3f}\n", sigabbrev_np(number), seconds_since_1970())); }

 private:
  fs::path file_;
};

/// The srun of a trial, which is killed if it does not end.
class Step {
 public:
  Step(const fs::path& folder, const slurm::Allocation& job)
      : pid_(start_process({"srun", "--jobid=" + job.job, "--job-name=distdl-signals", "--mpi=none",
                            fmt::format("--nodes={}", job.nodes), fmt::format("--ntasks={}", job.tasks), "--overlap",
                            "--kill-on-bad-exit=0", "--wait=5", "--unbuffered", "--export=ALL", "--disable-status",
                            "--input=none", program(), "doctor", "--signal-part", "task", "--dir", folder.string()},
                           slurm::variables_for_step(job))) {}
  ~Step() {
    await_end();
    if (is_over()) return;
    ::kill(pid_, SIGKILL);
    await_end();
  }
  Step(const Step&) = delete;
  Step& operator=(const Step&) = delete;

  void send(int number) const {
    if (!over_) ::kill(pid_, number);
  }
  bool is_over() {
    if (!over_) over_ = ::waitpid(pid_, nullptr, WNOHANG) != 0;
    return over_;
  }

 private:
  void await_end() {
    for (const auto limit = Deadline::after(10s); !limit.expired() && !is_over();) ::poll(nullptr, 0, 50);
  }

  pid_t pid_;
  bool over_ = false;
};

/// The supervisor's part of a trial.
class Trial {
 public:
  /// `own_job`: the whole job is the trial's.
  Trial(const fs::path& folder, const slurm::Allocation& job, bool own_job)
      : folder_(folder), job_(job), own_job_(own_job), recorder_(folder, "supervisor") {
    append(folder_ / "listening", "");
    write_facts();
  }
  void run() {
    Step step(folder_, job_);
    step_ = &step;
    wait(kReadyLimit, [&] { return step.is_over() || count("task") >= job_.tasks; });
    if (count("task") >= job_.tasks) send_signals();
    append(folder_ / "stop", "");
    step_ = nullptr;
  }

 private:
  void send_signals() {
    mark(TrialStage::tasks);
    call({"scancel", "--signal=TERM", own_job_ ? job_.job : job_.job + "." + step_id()});
    wait(kDelivery, [&] { return all_got("task", "TERM"); });
    if (own_job_) {
      mark(TrialStage::batch);
      call({"scancel", "--batch", "--signal=USR2", job_.job});
      wait(kDelivery, [&] { return all_got("batch", "USR2") && all_got("task", "USR1"); });
    }
    mark(TrialStage::srun);
    step_->send(SIGINT);
    wait(kDelivery, [&] { return all_got("task", "INT"); });
    if (!own_job_) return;
    mark(TrialStage::by_warning);
    wait(kWarningLimit, [&] { return all_got("batch", "USR1"); });
    wait(kDelivery, [&] { return warning_is_through(); });
  }
  /// Signals that come are recorded and passed on meanwhile, as the supervisor of a run does it.
  template <class Done>
  void wait(Milliseconds limit, Done&& done) {
    for (const auto end = Deadline::after(limit); !end.expired() && !done();) {
      const auto number = signals_.wait(kLook);
      if (!number) continue;
      recorder_.record(*number);
      if (step_) step_->send(SIGUSR1);
    }
  }
  bool all_got(const std::string& part, const std::string& signal, double from = 0) const {
    int got = 0;
    for (const auto& process : read_trial(folder_).processes)
      got += process.part == part && std::any_of(process.events.begin(), process.events.end(), [&](const auto& event) {
               return event.signal == signal && event.time >= from;
             });
    return got >= (part == "task" ? job_.tasks : 1);
  }
  bool warning_is_through() const {
    for (const auto& process : read_trial(folder_).processes)
      for (const auto& event : process.events)
        if (process.part == "batch" && event.signal == "USR1") return all_got("task", "USR1", event.time);
    return false;
  }
  int count(const std::string& part) const {
    const auto processes = read_trial(folder_).processes;
    return static_cast<int>(
        std::count_if(processes.begin(), processes.end(), [&](const auto& each) { return each.part == part; }));
  }
  void mark(TrialStage stage) {
    append(folder_ / "stages", fmt::format("{} {:.3f}\n", name_of(stage), seconds_since_1970()));
  }
  std::string step_id() const {
    std::string id;
    std::getline(std::ifstream(folder_ / "step"), id);
    return id;
  }
  static void call(const std::vector<std::string>& command) {
    const auto result = slurm::ask(command, kCommandLimit);
    if (result.exit_code != 0) log(Severity::warning, "{} {}", command.front(), slurm::cause_of(result, kCommandLimit));
  }
  void write_facts() const {
    const auto limits = slurm::job_limits(job_, slurm::scheduler());
    std::string text =
        fmt::format("job={}\ntasks={}\nscheduler={}\n", job_.called(), job_.tasks, slurm::scheduler().description());
    for (const auto& [key, value] : slurm::variables_of(limits)) text += fmt::format("{}={}\n", key, value);
    try {
      if (const auto record = slurm::scheduler().job(job_.called()))
        text += fmt::format("may_requeue={}\n", record->may_requeue ? 1 : 0);
    } catch (const SchedulerError&) {  // the limits have warned
    }
    append(folder_ / "facts", text);
  }

  const fs::path& folder_;
  const slurm::Allocation& job_;
  bool own_job_;
  Signals signals_{stop_signals()};
  Recorder recorder_;
  Step* step_ = nullptr;
};

/// A folder of its own beside the user's files, which the nodes see. Removed at the end.
class TrialFolder {
 public:
  explicit TrialFolder(const fs::path& parent)
      : folder_(resolved(parent), ".distdl-signals"), path_(fs::absolute(parent) / folder_.path().filename()) {
    make_folder(real_file_system(), folder_.path() / "processes");
  }
  TrialFolder(const TrialFolder&) = delete;
  TrialFolder& operator=(const TrialFolder&) = delete;
  const fs::path& path() const { return path_; }
  bool has(const char* name) const {
    std::error_code error;
    return fs::exists(path_ / name, error);
  }
  /// The end of the job's log, on one line.
  std::string log() const {
    constexpr std::size_t kShown = 600;
    std::ifstream file(path_ / "log");
    std::string text{std::istreambuf_iterator<char>(file), {}};
    if (text.size() > kShown) text.erase(0, text.size() - kShown);
    std::replace(text.begin(), text.end(), '\n', ';');
    return printable(text);
  }

 private:
  ScratchFolder folder_;
  fs::path path_;  ///< as other nodes call it, which may have other links
};

/// "it waits (Resources)"; throws SchedulerError if the job is over.
std::string state_of(const std::string& job, const TrialFolder& folder) {
  const auto record = slurm::scheduler().job(job);
  if (!record) return "is unknown to Slurm";
  require<SchedulerError>(record->is_pending() || !record->is_inactive() || folder.has("done"),
                          "trial job {} has ended ({}) before its signals were sent; its log: \"{}\"", job,
                          record->state, folder.log());
  return record->is_pending() ? fmt::format("waits ({})", record->reason) : "runs";
}

/// Until the job has made the file; cancels it otherwise.
void wait_for(const std::string& job, const TrialFolder& folder, const char* file, Milliseconds limit,
              Signals& signals) {
  const auto end = Deadline::after(limit);
  for (auto look = Deadline::after(2s); !folder.has(file);) {
    const bool stopped = signals.wait(kLook).has_value();
    try {
      require<SchedulerError>(!stopped, "stopped; trial job {} is cancelled", job);
      std::string state = "is not over";
      if (look.expired() || end.expired()) {
        state = state_of(job, folder);
        look = Deadline::after(slurm::Scheduler::kPeriod);
      }
      require<SchedulerError>(!end.expired(), "trial job {} {} after {} s, and is cancelled; its log: \"{}\"", job,
                              state, std::chrono::duration_cast<std::chrono::seconds>(limit).count(), folder.log());
    } catch (const SchedulerError&) {
      slurm::scheduler().cancel(job);
      throw;
    }
  }
}

std::string quoted(const std::string& text) {
  std::string all = "'";
  for (const char c : text) all += c == '\'' ? "'\\''" : std::string(1, c);
  return all + "'";
}
}  // namespace

// The traps of sbatch/train.sbatch, which also write down what comes. A signal is passed on once the supervisor
// listens.
std::string trial_script(const std::string& program, const fs::path& folder) {
  constexpr const char* kOptions = R"SH(#!/bin/bash
#SBATCH --job-name=distdl-signals
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=2
#SBATCH --time=1
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@60
)SH";
  constexpr const char* kWork = R"SH(
file=$folder/processes/batch-$$-$(uname -n)
: >"$file"
got=() recorded=0 passed=0
LC_ALL=C
for name in TERM INT HUP USR1 USR2; do
  trap "got+=($name)" "$name"
done
exec {never}<> <(:)
(exec "$program" doctor --signal-part supervisor --dir "$folder" {never}<&-) &
supervisor=$!
while kill -0 "$supervisor" 2>/dev/null; do
  while ((recorded < ${#got[@]})); do echo "${got[recorded++]} $EPOCHREALTIME" >>"$file"; done
  if ((passed < recorded)) && [[ -e $folder/listening ]]; then kill -s "${got[passed++]}" "$supervisor" 2>/dev/null; fi
  read -rt 0.1 -u "$never" || true
done
: >"$folder/done"
)SH";
  return fmt::format("{}folder={}\nprogram={}{}", kOptions, quoted(folder.string()), quoted(program), kWork);
}

SignalTrial try_signals_in_job(const fs::path& parent, const std::vector<std::string>& options) {
  Signals signals(stop_signals());
  const TrialFolder folder(parent);
  std::vector<std::string> all{"--output=" + (folder.path() / "log").string()};
  all.insert(all.end(), options.begin(), options.end());
  const auto job = slurm::scheduler().submit({trial_script(program(), folder.path()), {}, all});
  log(Severity::info, "trial job {} is submitted; it takes up to a minute once it runs", job);
  wait_for(job, folder, "listening", kQueueLimit, signals);
  wait_for(job, folder, "done", kTrialLimit, signals);
  return read_trial(folder.path());
}

SignalTrial try_signals_here(const fs::path& parent) {
  const TrialFolder folder(parent);
  auto allocation = slurm::current_allocation();
  require<UsageError>(allocation.has_value(), "{}", "this is no Slurm job");
  allocation->tasks = allocation->nodes;
  Trial(folder.path(), *allocation, false).run();
  return read_trial(folder.path());
}

void run_trial_supervisor(const fs::path& folder) {
  const auto allocation = slurm::current_allocation();
  require<UsageError>(allocation.has_value(), "{}", "--signal-part is for the trial job of --signal");
  Trial(folder, *allocation, true).run();
}

void run_trial_task(const fs::path& folder) {
  Signals signals(stop_signals());
  append(folder / "step", slurm::number_of_step() + "\n");
  Recorder recorder(folder, "task");
  std::error_code error;
  for (const auto end = Deadline::after(kTrialLimit); !end.expired() && !fs::exists(folder / "stop", error);)
    if (const auto number = signals.wait(kLook)) recorder.record(*number);
}

}  // namespace distdl::app
