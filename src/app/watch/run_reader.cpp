// SPDX-License-Identifier: Apache-2.0
#include <exception>
#include <utility>

#include <distdl/app/watch/run_reader.hpp>
#include <distdl/base/signals.hpp>
#include <distdl/base/work_progress.hpp>

namespace distdl::app {
namespace {
using namespace std::chrono_literals;
constexpr auto kReadEvery = 1s;
constexpr auto kAskEvery = 30s;
}  // namespace

RunFiles::RunFiles(const std::vector<std::filesystem::path>& folders) {
  for (const auto& folder : folders) runs_.emplace_back(folder);
}

/// Also as soon as a journal tells of another phase: what Slurm said before would contradict it.
void RunFiles::ask_slurm() {
  std::vector<observe::Phase> phases;
  for (const auto& run : runs_) phases.push_back(run.phase());
  if (next_question_ && !next_question_->expired() && phases == phases_) return;
  phases_ = std::move(phases);
  std::vector<std::string> jobs;
  for (const auto& run : runs_) {
    const auto more = run.jobs();
    jobs.insert(jobs.end(), more.begin(), more.end());
  }
  const auto states = ask_job_states(jobs);
  for (auto& run : runs_) run.tell(states);
  next_question_ = Deadline::after(kAskEvery);
}

std::vector<RunView> RunFiles::read() {
  for (auto& run : runs_) run.read(seconds_since_1970());
  ask_slurm();
  std::vector<RunView> views;
  for (const auto& run : runs_) views.push_back(run.view(seconds_since_1970()));
  return views;
}

std::vector<RunView> RunFiles::read_whole(const std::vector<std::filesystem::path>& folders) {
  RunFiles files({});
  for (const auto& folder : folders) {
    auto& run = files.runs_.emplace_back(folder, observe::kMostRead);
    do run.read(seconds_since_1970());
    while (run.is_searching());
    work_done(WorkUnit::rounds, 1);
  }
  return files.read();
}

std::vector<RunView> unread_views(const std::vector<std::filesystem::path>& folders) {
  std::vector<RunView> views;
  views.reserve(folders.size());
  for (const auto& folder : folders) views.push_back({.report = {.folder = folder}, .now = seconds_since_1970()});
  return views;
}

RunReader::RunReader(const std::vector<std::filesystem::path>& folders) {
  const SignalsBlocked blocked;  // in the thread too
  thread_ = std::thread([shared = shared_, folders] {
    read_again_and_again(*shared, folders);
    const std::lock_guard lock(shared->mutex);
    shared->has_ended = true;
    shared->changed.notify_all();
  });
}

RunReader::~RunReader() {
  constexpr auto kPatience = 1s;
  std::unique_lock lock(shared_->mutex);
  shared_->ends = true;
  shared_->changed.notify_all();
  const bool has_ended = shared_->changed.wait_for(lock, kPatience, [this] { return shared_->has_ended; });
  lock.unlock();
  has_ended ? thread_.join() : thread_.detach();  // a file system does not answer; the process ends soon
}

void RunReader::read_again_and_again(Shared& shared, const std::vector<std::filesystem::path>& folders) {
  auto views = unread_views(folders);
  try {
    for (RunFiles files(folders);;) {
      views = files.read();
      std::unique_lock lock(shared.mutex);
      shared.views = views;
      if (shared.changed.wait_for(lock, kReadEvery, [&] { return shared.ends; })) return;
    }
  } catch (const std::exception& error) {  // no memory, a defect: the screen tells it
    for (auto& view : views) view.trouble = error.what();
    const std::lock_guard lock(shared.mutex);
    shared.views = views;
  }
}

std::optional<std::vector<RunView>> RunReader::take() {
  const std::lock_guard lock(shared_->mutex);
  return std::exchange(shared_->views, std::nullopt);
}

}  // namespace distdl::app
