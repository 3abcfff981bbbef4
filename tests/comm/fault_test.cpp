// SPDX-License-Identifier: Apache-2.0
// A rank dies, freezes, gives up or runs away, at any time: the others learn it in time, know whom they lost, keep
// nothing, and work on as the next generation. A failure tells its seed; to repeat it:
//   DISTDL_FAULT_SEED=<seed> DISTDL_FAULT_STARTS=1 comm_fault_test
#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <sstream>
#include <thread>

#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/comm/fault_plan.hpp"
#include "tests/comm/leftovers.hpp"
#include "tests/comm/rank_processes.hpp"
#include <distdl/base/env.hpp>
#include <distdl/comm/node_memory.hpp>

namespace distdl::comm::faults {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kStarts = 10;
constexpr int kLeastCases = 30;
#else
constexpr int kStarts = 75;
constexpr int kLeastCases = 200;
#endif
constexpr int kAtOnce = 3;
constexpr Milliseconds kLimit{90'000};  ///< of all rounds of one start
/// In which often, not always, a rank freezes while it writes into a neighbour's queue of UCX: played as many times.
constexpr std::uint64_t kBlockingSeed = 68;
constexpr int kBlockingStarts = 8;

/// Of all starts, by thread-safe use.
struct Tally {
  std::atomic<int> next = 0;
  std::mutex mutex;
  int cases = 0;
  std::map<std::string, std::vector<double>> seconds;  ///< until a survivor knew, by kind of fault

  void add(const Round& round, const std::string& line) {
    const std::lock_guard lock(mutex);
    const auto after = line.find("; after ");
    const std::string kind = round.at_bootstrap() ? "at the bootstrap" : name_of(round.kind);
    if (after != std::string::npos) seconds[kind].push_back(std::stod(line.substr(after + 8)));
  }
};

std::string line_of(const std::string& text, std::size_t round) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("case " + std::to_string(round) + ":")) return line;
  return "";
}

/// The original number of each round's victim.
std::vector<int> victims(const Plan& plan) {
  std::vector<int> alive(static_cast<std::size_t>(plan.rounds.size()) + 1);
  for (std::size_t r = 0; r < alive.size(); ++r) alive[r] = static_cast<int>(r);
  std::vector<int> all;
  for (const Round& round : plan.rounds) {
    all.push_back(alive[static_cast<std::size_t>(round.victim)]);
    alive.erase(alive.begin() + round.victim);
  }
  return all;
}

std::string all_errors(const RankProcesses& processes, int size) {
  std::string text;
  for (int r = 0; r < size; ++r)
    if (const auto errors = processes.errors(r); !errors.empty()) text += fmt::format("  rank {}: {}", r, errors);
  return text;
}

/// `round`: in which it fails; as many as there are if it never does.
void expect_end(RankProcesses& processes, int rank, const Plan& plan, std::size_t round) {
  const Round* const fate = round < plan.rounds.size() ? &plan.rounds[round] : nullptr;
  if (fate && (fate->kind == Kind::freeze || fate->kind == Kind::desert)) {  // it stays
    if (round > 0) processes.wait_for_line({rank}, fmt::format("case {}:", round - 1), kLimit);
    return;
  }
  const int expected = fate && fate->kind == Kind::kill ? 128 + SIGKILL : 0;
  EXPECT_EQ(processes.wait(rank, kLimit), expected) << "rank " << rank;
}

void play(std::uint64_t seed, int start, Tally& tally) {
  const Plan plan = make_plan(seed);
  const int size = static_cast<int>(plan.rounds.size()) + 1;
  const auto lost = victims(plan);
  const std::string job = fmt::format("faults{}x{}", ::getpid(), start);
  std::vector<int> ranks;
  for (int r = 0; r < size; ++r) ranks.push_back(r);
  {
    SCOPED_TRACE(fmt::format("DISTDL_FAULT_SEED={}", seed));
    RankProcesses processes(FAULT_PROGRAM, {std::to_string(seed)}, size, ranks, {{"SLURM_JOB_ID", job}});
    for (int r = 0; r < size; ++r) {
      const auto round = static_cast<std::size_t>(std::find(lost.begin(), lost.end(), r) - lost.begin());
      expect_end(processes, r, plan, round);
      for (std::size_t i = 0; i < round; ++i) {
        const std::string line = line_of(processes.output(r), i);
        EXPECT_NE(line, "") << "rank " << r << " did not come through: " << describe(plan.rounds[i]);
        tally.add(plan.rounds[i], line);
      }
    }
    if (::testing::Test::HasFailure()) std::cerr << all_errors(processes, size);
  }
  NodeMemory::sweep();  // of those that were killed in the end only
  EXPECT_EQ(shared_memory_names(job), std::vector<std::string>());
  const std::lock_guard lock(tally.mutex);
  tally.cases += static_cast<int>(plan.rounds.size());
}

TEST(Faults, SurvivorsKnowWhomTheyLostAndWorkOn) {
  const auto first = static_cast<std::uint64_t>(env_integer("DISTDL_FAULT_SEED").value_or(1));
  const int starts = static_cast<int>(env_integer("DISTDL_FAULT_STARTS").value_or(kStarts));
  const int blocking_starts = starts == kStarts ? kBlockingStarts : 0;
  Tally tally;
  std::vector<std::jthread> threads;
  for (int t = 0; t < kAtOnce; ++t)
    threads.emplace_back([&] {
      while (!HasFailure()) {
        const int i = tally.next++;
        if (i >= starts + blocking_starts) return;
        play(i < starts ? first + static_cast<std::uint64_t>(i) : kBlockingSeed, i, tally);
      }
    });
  threads.clear();
  if (starts == kStarts) {
    EXPECT_GE(tally.cases, kLeastCases);
  }
  std::cout << tally.cases << " cases\n";
  for (auto& [kind, seconds] : tally.seconds) {
    std::sort(seconds.begin(), seconds.end());
    std::cout << fmt::format("{}: known after {:.3f} s (median of {}), {:.3f} s at most\n", kind,
                             seconds[seconds.size() / 2], seconds.size(), seconds.back());
  }
}

}  // namespace
}  // namespace distdl::comm::faults
