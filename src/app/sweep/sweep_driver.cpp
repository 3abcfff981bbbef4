// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <csignal>
#include <cstring>
#include <deque>

#include <fmt/ranges.h>

#include <distdl/app/sweep/sweep_driver.hpp>
#include <distdl/app/sweep/tournament.hpp>
#include <distdl/base/exit_codes.hpp>
#include <distdl/base/log.hpp>
#include <distdl/base/printable.hpp>

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
  while (true) {
    const auto runs = told();
    const auto rung = next_rung(sweep_, runs, rounds_held(sweep_.folder));
    if (rung.is_last()) {
      const bool all_failed =
          std::ranges::all_of(runs, [](const auto& run) { return run.state == SweptRun::State::failed; });
      return all_failed ? (failure_ != 0 ? failure_ : static_cast<int>(ExitCode::config)) : 0;
    }
    if (rung.left.empty()) {
      hold_round(sweep_, runs, rung.round);
      continue;
    }
    if (!train(rung)) return static_cast<int>(ExitCode::requeue);
  }
}

std::vector<SweptRun> SweepDriver::told() const {
  auto runs = read_swept_runs(sweep_, sweep_.folder);
  for (const std::size_t run : retrying_) runs[run].state = SweptRun::State::unfinished;
  for (const std::size_t run : failed_) runs[run].state = SweptRun::State::failed;
  return runs;
}

bool SweepDriver::train(const SweepRung& rung) {
  constexpr Milliseconds kLook{1000};
  const auto goal = rung.end_at > 0 ? fmt::format("to step {}", rung.end_at) : std::string("to their end");
  log(Severity::info, "{} of {} runs train {}, {} at once", rung.left.size(), points_.size(), goal, sweep_.at_once);
  std::deque<std::size_t> waiting(rung.left.begin(), rung.left.end());
  while (true) {
    while (!is_stopping_ && !waiting.empty() && pool_.size() < static_cast<std::size_t>(sweep_.at_once)) {
      start(waiting.front(), rung.end_at);
      waiting.pop_front();
    }
    if (pool_.size() == 0) return !is_stopping_;
    if (const auto number = signals_.wait(kLook); number && *number != SIGCHLD)
      stop(fmt::format("signal SIG{}", sigabbrev_np(*number)));
    for (const auto& ended : pool_.reap()) note(ended, rung.end_at);
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
  const auto value = run.value_at(run.steps);
  const bool is_there = run.state == SweptRun::State::finished || (end_at > 0 && run.steps >= end_at);
  if (ended.code == 0 && value && is_there)
    return log(Severity::info, "run {} at step {}: {} {:.6g}", name, run.steps, sweep_.metric, *value);
  if (is_stopping_) return;
  failed_.insert(ended.number);
  failure_ = ended.code;
  log(Severity::warning, "run {} failed with code {}: {}; its output is in \"{}\"", name, ended.code,
      run.failure.empty() ? "it has no evaluation" : printable(run.failure), log_of(sweep_, ended.number).string());
}

void SweepDriver::stop(const std::string& reason) {
  if (!is_stopping_) log(Severity::info, "{}: the runs are asked to save and stop", reason);
  is_stopping_ = true;
  pool_.signal(processes_.stop_signal);
}

}  // namespace distdl::app
