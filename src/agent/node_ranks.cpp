// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <csignal>
#include <cstring>
#include <utility>

#include <distdl/agent/node_ranks.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>

namespace distdl::agent {
namespace {
/// What a rank counts as that is frozen: others lost it.
constexpr int kFrozen = 128 + SIGKILL;

std::string text_of(int code) {
  constexpr int kSignal = 128;
  if (code > kSignal && sigabbrev_np(code - kSignal))
    return fmt::format("was killed by SIG{}", sigabbrev_np(code - kSignal));
  const auto* entry = entry_of(code);
  return entry ? fmt::format("ended with code {} ({})", code, entry->name) : fmt::format("ended with code {}", code);
}
}  // namespace

NodeRanks::NodeRanks(Rank first, std::vector<Process> ranks, const BeatLimits& limits, Clock::time_point now)
    : first_(first),
      limits_(limits),
      signs_([&] {
        std::vector<Sign> signs(ranks.size());
        for (auto& sign : signs) sign.last = now;
        return signs;
      }()),
      processes_(with_pipes(std::move(ranks), signs_)) {
  for (auto& sign : signs_) sign.pipe.close_writer();
}

std::vector<Process> NodeRanks::with_pipes(std::vector<Process> ranks, const std::vector<Sign>& signs) {
  for (std::size_t i = 0; i < ranks.size(); ++i) ranks[i].variables.merge(signs[i].pipe.variables());
  return ranks;
}

std::vector<int> NodeRanks::descriptors() const {
  std::vector<int> all;
  all.reserve(signs_.size());
  for (const auto& sign : signs_) all.push_back(sign.pipe.descriptor());
  return all;
}

void NodeRanks::check(Clock::time_point now, Clock::duration late) {
  for (std::size_t i = 0; i < signs_.size(); ++i) {
    Sign& sign = signs_[i];
    sign.last += late;
    if (const auto step = sign.pipe.poll()) {
      sign.step = *step;
      sign.last = now;
      sign.came = true;
    }
    const auto limit = sign.came ? limits_.between : limits_.first;
    if (sign.frozen || now - sign.last <= limit || !processes_.runs(i)) continue;
    sign.frozen = true;
    log(Severity::error, "rank {} has given no sign of life for {:.1f} s: it is ended",
        first_.value + static_cast<int>(i), std::chrono::duration<double>(now - sign.last).count());
    processes_.kill(i, kFrozen);
  }
}

void NodeRanks::stop() {
  processes_.signal(SIGTERM);
}

std::string NodeRanks::cause() const {
  const auto& cause = processes_.cause();
  if (!cause) return "";
  const int rank = first_.value + static_cast<int>(cause->index);
  if (signs_[cause->index].frozen) return fmt::format("rank {} was frozen", rank);
  return fmt::format("rank {} {}", rank, text_of(cause->code));
}

bool NodeRanks::are_up() const {
  return std::ranges::all_of(signs_, &Sign::came);
}

Step NodeRanks::step() const {
  Step latest;
  for (const auto& sign : signs_) latest = std::max(latest, sign.step);
  return latest;
}

}  // namespace distdl::agent
