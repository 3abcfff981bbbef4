// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <distdl/base/clock.hpp>
#include <distdl/slurm/records.hpp>

namespace distdl::slurm {

/// Questions to Slurm's controller. Two implementations: libslurm through a plug-in (libslurm.hpp) and Slurm's commands
/// (commands.hpp). All functions answer within a limit of time, and throw SchedulerError, in Slurm's own words, if they
/// cannot.
class Queries {
 public:
  virtual ~Queries() = default;
  virtual std::string description() const = 0;  ///< "libslurm 22.05", "scontrol"
  /// `id`: "17", or "12_3" of a task of an array. Nothing if Slurm knows no such job (any more).
  virtual std::optional<JobRecord> job(const std::string& id) = 0;
  /// Nothing if there is none.
  virtual std::optional<Partition> partition(const std::string& name) = 0;
  virtual Settings settings() = 0;
  /// Returns the script of a job of this user that is pending or running. Nothing if it has none.
  virtual std::optional<std::string> batch_script(const std::string& id) = 0;
};

/// A job to submit: `sbatch --chdir=FOLDER OPTIONS`.
struct Submission {
  /// The text of its batch script, which sbatch gets by its stdin: another command may replace a file at any time.
  std::string script;
  std::filesystem::path folder = {};      ///< folder in which it runs; empty: this one
  std::vector<std::string> options = {};  ///< options of sbatch, "--nodes=2"
};

/// Whether an answer may be some seconds old.
enum class Freshness {
  cached,  ///< up to Scheduler::kPeriod old
  now,     ///< where what follows from the answer cannot be undone: a requeue, the end of the run
};

/// Access to Slurm: the questions, with at most one per job in kPeriod unless it has to be fresh, and the actions,
/// which always go through Slurm's commands, so that the site's plug-ins see them. Job ids are checked: any text that
/// is none is refused with SchedulerError. Thread-safe; a thread may wait for the question of another.
class Scheduler {
 public:
  static constexpr std::chrono::seconds kPeriod{30};

  /// libslurm where its plug-in is installed and fits the Slurm here, with the commands for what it cannot answer; else
  /// the commands.
  Scheduler();
  /// With these questions, and this clock for their age.
  explicit Scheduler(std::unique_ptr<Queries> queries, std::function<Clock::time_point()> now = &Clock::now);

  std::string description() const { return queries_->description(); }
  /// As those of Queries. Errors are not kept.
  std::optional<JobRecord> job(const std::string& id, Freshness freshness = Freshness::cached);
  std::optional<Partition> partition(const std::string& name);
  Settings settings();
  std::optional<std::string> batch_script(const std::string& id);

  /// Puts the job back into the queue. Slurm then kills it: a caller inside it should wait to be killed. Throws
  /// SchedulerError in Slurm's own words, as do the following.
  void requeue(const std::string& id);
  void cancel(const std::string& id);
  /// Keeps a job that waits off these nodes, instead of those that it was kept off before. Empty: off none.
  void exclude_nodes(const std::string& id, const std::vector<std::string>& nodes);
  /// The new job's id. The environment is passed on as sbatch does by default, without Slurm's own variables
  /// (environment.hpp).
  std::string submit(const Submission& submission);

  /// Forgets all answers.
  void forget();

 private:
  void forget(const std::string& id);
  template <class Answer>
  struct Kept {
    Answer answer;
    Clock::time_point at;
  };
  template <class Answer, class Ask>
  Answer ask(std::map<std::string, Kept<Answer>>& kept, const std::string& name, Freshness freshness, Ask&& ask);

  std::unique_ptr<Queries> queries_;
  std::function<Clock::time_point()> now_;
  std::mutex mutex_;
  std::map<std::string, Kept<std::optional<JobRecord>>> jobs_;
  std::map<std::string, Kept<std::optional<Partition>>> partitions_;
  std::map<std::string, Kept<std::optional<std::string>>> scripts_;
  std::map<std::string, Kept<Settings>> settings_;  ///< one
};

/// The one of this process. Not in a process that trains: libslurm has no business there.
Scheduler& scheduler();

}  // namespace distdl::slurm
