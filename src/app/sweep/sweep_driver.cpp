// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <csignal>
#include <cstring>
#include <utility>

#include <fmt/ranges.h>

#include <distdl/app/sweep/sweep_driver.hpp>
#include <distdl/app/sweep/tournament.hpp>
#include <distdl/base/log.hpp>
#include <distdl/base/printable.hpp>
#include <distdl/base/restart.hpp>
#include <distdl/launch/folder_lock.hpp>

namespace distdl::app {
namespace {
std::filesystem::path folder_of(const Sweep& sweep, std::size_t run) {
  return std::filesystem::path(sweep.folder) / name_of_run(run);
}

std::filesystem::path log_of(const Sweep& sweep, std::size_t run) {
  return std::filesystem::path(sweep.folder) / (name_of_run(run) + ".log");
}
}  // namespace

std::vector<std::string> words_of_run(const Sweep& sweep, std::size_t run, const SweepPoint& point,
                                      std::int64_t end_at) {
  std::vector<std::string> words{sweep.job};
  const auto add = [&words](const std::string& set) { words.insert(words.end(), {"--set", set}); };
  for (const std::string& set : point) add(set);
  add("run.dir=" + folder_of(sweep, run).string());
  if (end_at > 0) add(fmt::format("train.end_at_step={}", end_at));
  return words;
}

SweepDriver::SweepDriver(const Sweep& sweep, const SweepProcesses& processes, agent::SupervisorSignals& signals)
    : sweep_(sweep), processes_(processes), signals_(signals), points_(points_of(sweep)) {}

int SweepDriver::run(bool retries) {
  if (retries)
    for (std::size_t run = 0; run < points_.size(); ++run)
      if (read_swept_run(folder_of(sweep_, run), sweep_.metric).state == SweptRun::State::failed) retrying_.insert(run);
  if (!retrying_.empty() && sweep_.method == SweepMethod::halving) reopen_rungs(sweep_.folder, retrying_);
  while (true) {
    const auto runs = told();
    const auto decisions = read_decisions(sweep_);
    const auto rung = next_rung(sweep_, runs, decisions);
    if (rung.is_last()) {
      const bool all_failed =
          std::ranges::all_of(runs, [](const auto& run) { return run.state == SweptRun::State::failed; });
      return all_failed ? (failure_ != 0 ? failure_ : static_cast<int>(ExitCode::config)) : 0;
    }
    if (rung.left.empty())
      decide(rung, runs, decisions);
    else if (!train(rung))
      return static_cast<int>(*stopping_);
  }
}

void SweepDriver::decide(const SweepRung& rung, const std::vector<SweptRun>& runs,
                         const SweepDecisions& decisions) const {
  if (sweep_.method == SweepMethod::tournament) {
    hold_round(sweep_, runs, rung.number);
    return;
  }
  const auto decided = decide_rung(sweep_, runs, rung, decisions);
  write_rung(sweep_.folder, decided);
  log(Severity::info, "{} of {} runs go on after step {}", decided.going_on->size(), rung.runs.size(), rung.end_at);
}

std::vector<SweptRun> SweepDriver::told() const {
  auto runs = read_swept_runs(sweep_, sweep_.folder);
  for (const std::size_t run : retrying_) runs[run].state = SweptRun::State::unfinished;
  for (const std::size_t run : failed_) runs[run].state = SweptRun::State::failed;
  return runs;
}

bool SweepDriver::train(const SweepRung& rung) {
  constexpr Milliseconds kLook{1000}, kSoon{100};
  const auto goal = rung.end_at > 0 ? fmt::format("to step {}", rung.end_at) : std::string("to their end");
  log(Severity::info, "{} of {} runs train {}, {} at once", rung.left.size(), points_.size(), goal, sweep_.at_once);
  waiting_.assign(rung.left.begin(), rung.left.end());
  while (true) {
    if (stopping_) waiting_.clear();
    start_some(rung.end_at);
    if (pool_.size() == 0 && waiting_.empty()) return !stopping_;
    if (const auto number = signals_.wait(again_.empty() ? kLook : kSoon); number && *number != SIGCHLD)
      stop(fmt::format("signal SIG{}", sigabbrev_np(*number)));
    for (const auto& ended : pool_.reap()) note(ended, rung.end_at);
  }
}

void SweepDriver::start_some(std::int64_t end_at) {
  const auto is_ready = [this](std::size_t run) {
    const auto found = again_.find(run);
    return found == again_.end() || found->second.pause.expired();
  };
  while (pool_.size() < static_cast<std::size_t>(sweep_.at_once)) {
    const auto next = std::ranges::find_if(waiting_, is_ready);
    if (next == waiting_.end()) return;
    const std::size_t run = *next;
    waiting_.erase(next);
    start(run, end_at);
  }
}

void SweepDriver::start(std::size_t run, std::int64_t end_at) {
  log(Severity::info, "run {} begins: {}", name_of_run(run), fmt::join(points_[run], ", "));
  retrying_.erase(run);
  pool_.start(run, processes_.command(words_of_run(sweep_, run, points_[run], end_at)), processes_.variables,
              log_of(sweep_, run));
}

void SweepDriver::note(const RunPool::Ended& ended, std::int64_t end_at) {
  const auto name = name_of_run(ended.number);
  if (ended.code == static_cast<int>(ExitCode::requeue)) {
    log(Severity::info, "run {} has saved and stopped", name);
    return stop("run " + name + " has stopped");  // whoever stopped it, as the end of the job, means all
  }
  const auto run = read_swept_run(folder_of(sweep_, ended.number), sweep_.metric);
  const bool is_there = run.state == SweptRun::State::finished ||
                        (run.state == SweptRun::State::paused && end_at > 0 && run.steps >= end_at);
  if (ended.code == 0 && run.value && is_there) {
    again_.erase(ended.number);
    return log(Severity::info, "run {} at step {}: {} {:.6g}", name, run.steps, sweep_.metric, *run.value);
  }
  if (stopping_ || starts_again(ended, run)) return;
  failed_.insert(ended.number);
  failure_ = ended.code;
  log(Severity::warning, "run {} failed with code {}: {}; its output is in \"{}\"", name, ended.code,
      run.failure.empty() ? fmt::format("it has told no {}", sweep_.metric) : printable(run.failure),
      log_of(sweep_, ended.number).string());
}

bool SweepDriver::starts_again(const RunPool::Ended& ended, const SweptRun& run) {
  constexpr int kMostTimes = 3;
  if (ended.code == static_cast<int>(ExitCode::superseded)) return waits_for_other_start(ended.number);
  const bool has_said_why = run.state == SweptRun::State::failed && run.code == ended.code;
  const bool can_pass = decide_restart(ended.code, {.may_be_of_srun = true}) == RestartDecision::relaunch;
  if (has_said_why || !can_pass) return false;
  Again& again = again_[ended.number];
  again.patience.reset();
  if (run.saved > std::exchange(again.saved, run.saved)) again.times = 0;
  if (++again.times > kMostTimes) return false;
  again.pause = Deadline::after(std::chrono::seconds(1 << (again.times - 1)));
  waiting_.push_back(ended.number);
  log(Severity::warning, "run {} ended with code {}, and nothing tells why; it is started again",
      name_of_run(ended.number), ended.code);
  return true;
}

/// A process of a sweep that was killed may live a little longer than the sweep.
bool SweepDriver::waits_for_other_start(std::size_t run) {
  constexpr std::chrono::seconds kPatience = launch::kLongestSilence + std::chrono::seconds(30);
  constexpr Milliseconds kPause{250};
  Again& again = again_[run];
  const bool is_new = !again.patience;
  if (is_new) again.patience = Deadline::after(kPatience);
  const auto about = fmt::format("run {} is in use by another start, which \"{}\" names", name_of_run(run),
                                 log_of(sweep_, run).string());
  if (is_new) log(Severity::warning, "{}; waiting for up to {} s until that has ended", about, kPatience.count());
  waiting_.push_back(run);
  if (again.patience->expired()) stop(about, ExitCode::superseded);
  again.pause = Deadline::after(kPause);
  return true;
}

void SweepDriver::stop(const std::string& reason, ExitCode code) {
  if (!stopping_) log(Severity::info, "{}: the runs are asked to save and stop", reason);
  if (!stopping_) stopping_ = code;
  pool_.signal(processes_.stop_signal);
}

}  // namespace distdl::app
