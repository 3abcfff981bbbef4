// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <random>
#include <thread>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/checkpoint/proof/proofs.hpp"
#include <distdl/base/clock.hpp>
#include <distdl/checkpoint/saver.hpp>
#include <distdl/checkpoint/snapshot_memory.hpp>

namespace distdl::checkpoint::proof {
namespace {

/// The sample of a step; few steps share one, and every sixteenth is large.
Sample sample_of(std::int64_t step) {
  return make_sample(static_cast<std::uint64_t>(step) % 1000, step % 16 == 0 ? 33'000 : 40);
}

/// The same for all runs of a folder, so that each removes the buffers that the one before has left.
std::string run_name(const std::filesystem::path& root) {
  return "random-kills" + root.filename().string();
}

struct Progress {
  std::int64_t begun = 0, saved = 0;
};

/// Saves one step after the other from `first` on, with two ranks, until it is killed. Every other run saves as
/// training does: from snapshot buffers, in a writing thread.
[[noreturn]] void save_for_ever(const std::filesystem::path& root, std::int64_t first, int pipe) {
  auto tell = [&](char what, std::int64_t step) {
    std::string line = fmt::format("{} {}\n", what, step);
    if (::write(pipe, line.data(), line.size()) < 0) ::_exit(2);
  };
  ThreadGroups writing(2);
  ThreadGroups(2).run([&](Group& group) {
    Store store(root, {.keep = 2, .mode = first % 2 == 0 ? "sync" : first % 4 == 1 ? "async" : "lazy"});
    store.take(group, {"long", first, 0, ""});
    Saver saver(store, group, writing.member(group.rank()), {run_name(root)});
    saver.prepare(share_of(sample_of(16), group.rank(), 2).slices, sample_state());
    for (std::int64_t step = first;; ++step) {
      Sample sample = sample_of(step);
      if (group.rank() == 0) tell('b', step);
      Share share = share_of(sample, group.rank(), 2);
      saver.save(Step(step), share.slices, sample_state());
      saver.fence();
      for (auto& bytes : share.memory) std::fill(bytes.begin(), bytes.end(), std::byte{0xA5});  // training goes on
      saver.wait();
      if (group.rank() == 0) tell('s', step);
    }
  });
  ::_exit(1);
}

/// Kills a run some microseconds after its first save began.
Progress run_and_kill(const std::filesystem::path& root, std::int64_t first, std::chrono::microseconds after) {
  int ends[2];
  if (::pipe(ends) != 0) throw std::runtime_error("pipe failed");
  pid_t child = ::fork();
  if (child < 0) throw std::runtime_error("fork failed");
  if (child == 0) save_for_ever(root, first, ends[1]);
  ::close(ends[1]);
  FILE* lines = ::fdopen(ends[0], "r");
  Progress progress{first, 0};
  char line[64];
  bool began = std::fgets(line, sizeof(line), lines) != nullptr;
  std::this_thread::sleep_for(after);
  ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  while (std::fgets(line, sizeof(line), lines))
    (line[0] == 'b' ? progress.begun : progress.saved) = std::atoll(line + 2);
  std::fclose(lines);
  if (!began || !WIFSIGNALED(status)) throw std::runtime_error("a run that was to be killed ended by itself");
  return progress;
}
/// How long a save takes here and now.
std::chrono::microseconds time_of_a_save(const std::filesystem::path& root) {
  constexpr int kSaves = 5;
  Stopwatch watch;
  for (int i = 0; i < kSaves; ++i)
    if (!all_empty(save_as(root, 2, Step(1), sample_of(i), false, {.keep = 2}))) throw std::runtime_error("no save");
  return std::chrono::microseconds(static_cast<std::int64_t>(watch.seconds() * 1e6) / kSaves);
}
}  // namespace

RandomKills prove_random_kills(std::size_t count, std::uint64_t seed) {
  RandomKills result;
  std::mt19937_64 random(seed);
  TemporaryFolder folder;
  std::int64_t restored = 0;
  std::chrono::microseconds save_time{};
  for (result.kills = 0; result.kills < count; ++result.kills) {
    if (result.kills % 100 == 0) {  // the machine may be busier now
      TemporaryFolder elsewhere;
      save_time = time_of_a_save(elsewhere.path());
    }
    Progress progress = run_and_kill(folder.path(), restored + 1, save_time * (random() % 3000) / 1000);
    result.in_save += progress.begun > progress.saved;
    std::int64_t promised = std::max(restored, progress.saved);
    try {
      SingleProcessGroup alone;
      Store store(folder.path(), {.keep = 2});
      auto found = store.newest_valid(alone);
      std::int64_t step = found ? found->step.value : 0;
      bool wrong =
          step < promised || step > progress.begun || (found && !compare(store, *found, sample_of(step)).empty());
      result.wrong += wrong;
      result.saves += static_cast<std::size_t>(step - restored);
      restored = step;
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
      ++result.unreadable;
    }
  }
  for (const std::string& buffer : buffers_of(run_name(folder.path()))) remove_orphan(buffer);
  return result;
}

}  // namespace distdl::checkpoint::proof
