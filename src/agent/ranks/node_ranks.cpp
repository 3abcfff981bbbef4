// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <utility>

#include <distdl/agent/ranks/node_ranks.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/base/slurm_variables.hpp>

namespace distdl::agent {
namespace {
constexpr int kBySigkill = 128 + SIGKILL;
constexpr int kFrozen = kBySigkill;  ///< what a rank counts as that is frozen: others lost it

/// A signal that a process gets for what it does itself.
bool is_crash(int code) {
  return std::ranges::count(std::array{SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSYS, SIGTRAP}, code - 128) > 0;
}

std::string text_of(int code) {
  constexpr int kSignal = 128;
  if (code > kSignal && sigabbrev_np(code - kSignal))
    return fmt::format("was killed by SIG{}", sigabbrev_np(code - kSignal));
  const auto* entry = entry_of(code);
  return entry ? fmt::format("ended with code {} ({})", code, entry->name) : fmt::format("ended with code {}", code);
}

constexpr Milliseconds kLongestLook{300};  ///< at the stacks of all ranks that are ended at once

}  // namespace

NodeRanks::NodeRanks(Rank first, std::vector<Process> ranks, const BeatLimits& limits, Clock::time_point now)
    : first_(first),
      limits_(limits),
      signs_([&] {
        std::vector<Sign> signs(ranks.size());
        for (auto& sign : signs) sign.last = now;
        return signs;
      }()),
      oom_kills_(count_oom_kills()),
      processes_(with_pipes(std::move(ranks), signs_)) {
  for (auto& sign : signs_) {
    sign.pipe.close_writer();
    sign.activity->close_descriptor();
    sign.stall = RankStall(limits_.stall);
  }
}

std::vector<Process> NodeRanks::with_pipes(std::vector<Process> ranks, const std::vector<Sign>& signs) {
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    ranks[i].variables.merge(slurm_variables());  // of the agent's step, which is theirs
    ranks[i].variables.merge(signs[i].pipe.variables());
    ranks[i].variables.merge(signs[i].activity->variables());
    ranks[i].descriptors = {signs[i].pipe.writer(), signs[i].activity->descriptor()};
  }
  return ranks;
}

std::vector<int> NodeRanks::descriptors() const {
  std::vector<int> all;
  all.reserve(signs_.size());
  for (const auto& sign : signs_) all.push_back(sign.pipe.descriptor());
  return all;
}

void NodeRanks::check(Clock::time_point now, Clock::duration late) {
  const auto looking = Deadline::after(kLongestLook);
  for (std::size_t i = 0; i < signs_.size(); ++i) {
    Sign& sign = signs_[i];
    sign.last += late;
    if (const auto step = sign.pipe.poll()) {
      sign.step = *step;
      sign.last = now;
      sign.came = true;
    }
    look_for_stall(i, now, late, looking);
    const auto limit = sign.came ? limits_.between : limits_.first;
    if (sign.frozen || now - sign.last <= limit || !processes_.runs(i)) continue;
    sign.frozen = true;
    log(Severity::error, "rank {} has given no sign of life for {:.1f} s: it is ended", rank_of(i),
        std::chrono::duration<double>(now - sign.last).count());
    processes_.kill(i, kFrozen);
  }
}

/// Whether the kernel was it is asked at once: other processes may fail for lack of memory later.
std::size_t NodeRanks::reap() {
  const auto code = [this] { return processes_.cause() ? processes_.cause()->code : 0; };
  const int before = code();
  const std::size_t running = processes_.reap();
  if (before != kBySigkill && code() == kBySigkill) oom_kill_place_ = place_of_oom_kill(oom_kills_, count_oom_kills());
  return running;
}

void NodeRanks::look_for_stall(std::size_t index, Clock::time_point now, Clock::duration late,
                               const Deadline& looking) {
  Sign& sign = signs_[index];
  const auto process = processes_.pid_of(index);
  if (sign.frozen || !process) return;
  if (sign.stall.look({rank_of(index), *process, sign.activity}, now, late, looking)) processes_.kill(index, kFrozen);
}

std::vector<StartedRank> NodeRanks::started() const {
  std::vector<StartedRank> ranks;
  for (std::size_t i = 0; i < signs_.size(); ++i)
    if (const auto pid = processes_.pid_of(i)) ranks.push_back({rank_of(i), *pid, signs_[i].activity});
  return ranks;
}

void NodeRanks::stop(int number) {
  processes_.signal(number);
}

void NodeRanks::kill() {
  for (std::size_t i = 0; i < signs_.size(); ++i) {
    const auto threads = signs_[i].activity->look();
    if (!threads.empty() && threads.front().phase == RankPhase::corrupted)
      processes_.kill(i, static_cast<int>(ExitCode::corruption));
  }
  processes_.kill();
}

bool NodeRanks::end_a_round() const {
  return std::ranges::any_of(started(), [](const StartedRank& rank) {
    const auto threads = rank.activity->look();
    return std::ranges::count(threads, RankPhase::end_round, &ThreadSeen::phase) > 0;
  });
}

std::string NodeRanks::cause() const {
  const auto& cause = processes_.cause();
  if (!cause) return "";
  const Rank rank = rank_of(cause->index);
  if (const auto& stall = signs_[cause->index].stall.text(); !stall.empty())
    return fmt::format("rank {} {}", rank, stall);
  if (signs_[cause->index].frozen) return fmt::format("rank {} was frozen", rank);
  if (is_oom_kill()) return fmt::format("rank {} was killed for lack of memory {}", rank, oom_kill_place_);
  return fmt::format("rank {} {}", rank, text_of(cause->code));
}

Origin NodeRanks::origin() const {
  const auto& cause = processes_.cause();
  if (!cause) return {};
  constexpr int kSignal = 128;
  const Sign& sign = signs_[cause->index];
  const CauseKind kind = !sign.stall.text().empty()   ? CauseKind::no_progress
                         : sign.frozen                ? CauseKind::frozen
                         : is_oom_kill()              ? CauseKind::out_of_memory
                         : is_crash(cause->code)      ? CauseKind::crashed
                         : is_corruption(cause->code) ? CauseKind::corrupted
                         : cause->code > kSignal      ? CauseKind::killed
                                                      : CauseKind::failed;
  return {kind, std::nullopt, first_.value + static_cast<int>(cause->index)};
}

bool NodeRanks::is_oom_kill() const {
  return oom_kill_place_ && processes_.cause()->code == kBySigkill;
}

bool NodeRanks::are_up() const {
  return std::ranges::all_of(signs_, &Sign::came);
}

Step NodeRanks::step() const {
  Step latest(-1);
  for (const auto& sign : signs_) latest = std::max(latest, sign.step);
  return latest;
}

}  // namespace distdl::agent
