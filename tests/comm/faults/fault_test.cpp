// SPDX-License-Identifier: Apache-2.0
// A rank dies, freezes, gives up or runs away, at any time: the others learn it in time, know whom they lost, keep
// nothing, and work on as the next generation. By default each kind of fault comes at each time; for a long search, and
// to repeat a failure, which tells its seed:
//   DISTDL_FAULT_STARTS=75 comm_fault_test
//   DISTDL_FAULT_SEED=<seed> DISTDL_FAULT_STARTS=1 comm_fault_test
#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <thread>

#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/comm/faults/fault_plan.hpp"
#include "tests/comm/processes/rank_processes.hpp"
#include "tests/comm/shm/node_memories.hpp"
#include "tests/pace.hpp"
#include <distdl/base/env.hpp>

namespace distdl::comm::faults {
namespace {

constexpr int kAtOnce = 3;
constexpr Milliseconds kLimit{60'000};  ///< of all rounds of one start
/// In which often, not always, a rank freezes while it writes into another rank's queue of UCX: played several times.
constexpr std::uint64_t kBlockingSeed = 68;
constexpr std::size_t kStartsPerBlocking = 9;
/// Of what can befall a rank at what time: all but to give up or to desert before there is a communicator, or amid its
/// close. Nor does a rank give up as soon as it has connected: on a busy machine its word may come after its end, and
/// then the others know that it has ended, and not why (seed 133).
constexpr std::size_t kFaults = 23;

/// Of all starts, by thread-safe use.
struct Tally {
  std::atomic<std::size_t> next = 0;
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
    if (round > 0) processes.wait_for_line({rank}, fmt::format("case {}:", round - 1), paced(kLimit));
    return;
  }
  const int expected = fate && fate->kind == Kind::kill ? 128 + SIGKILL : 0;
  EXPECT_EQ(processes.wait(rank, paced(kLimit)), expected) << "rank " << rank;
}

void play(std::uint64_t seed, std::size_t start, Tally& tally) {
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
  EXPECT_EQ(names_after_sweep(job, 0), 0);  // of those that were killed in the end only
  const std::lock_guard lock(tally.mutex);
  tally.cases += static_cast<int>(plan.rounds.size());
}

/// The first seeds that together show each fault once.
std::vector<std::uint64_t> seeds_of_all_faults() {
  std::set<std::pair<Kind, When>> shown;
  std::vector<std::uint64_t> seeds;
  for (std::uint64_t seed = 1; shown.size() < kFaults; ++seed) {
    const auto before = shown.size();
    for (const Round& round : make_plan(seed).rounds)
      if (round.kind != Kind::abort || round.when != When::before) shown.emplace(round.kind, round.when);
    if (shown.size() > before) seeds.push_back(seed);
  }
  return seeds;
}

/// Of all starts to play.
std::vector<std::uint64_t> chosen_seeds() {
  const auto first = env_integer("DISTDL_FAULT_SEED"), starts = env_integer("DISTDL_FAULT_STARTS");
  std::vector<std::uint64_t> seeds;
  if (first || starts)
    for (long long i = 0; i < starts.value_or(1); ++i)
      seeds.push_back(static_cast<std::uint64_t>(first.value_or(1) + i));
  else
    seeds = seeds_of_all_faults();
  seeds.insert(seeds.end(), seeds.size() / kStartsPerBlocking, kBlockingSeed);
  return seeds;
}

TEST(Faults, SurvivorsKnowWhomTheyLostAndWorkOn) {
  std::cout << fmt::format("deadlines are {:.1f} times as long as on a quick, idle machine\n", pace());
  const auto seeds = chosen_seeds();
  Tally tally;
  std::vector<std::jthread> threads;
  for (int t = 0; t < kAtOnce; ++t)
    threads.emplace_back([&] {
      while (!HasFailure()) {
        const std::size_t i = tally.next++;
        if (i >= seeds.size()) return;
        play(seeds[i], i, tally);
      }
    });
  threads.clear();
  std::cout << tally.cases << " cases\n";
  for (auto& [kind, seconds] : tally.seconds) {
    std::sort(seconds.begin(), seconds.end());
    std::cout << fmt::format("{}: known after {:.3f} s (median of {}), {:.3f} s at most\n", kind,
                             seconds[seconds.size() / 2], seconds.size(), seconds.back());
  }
}

}  // namespace
}  // namespace distdl::comm::faults
