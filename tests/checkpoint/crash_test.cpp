// SPDX-License-Identifier: Apache-2.0
// A save is killed before each of its I/O operations. Whatever remains must be a whole checkpoint.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include "tests/checkpoint/failing_file_system.hpp"
#include "tests/checkpoint/sample.hpp"
#include <distdl/checkpoint/layout.hpp>

namespace distdl::checkpoint {
namespace {

struct Crash {
  int world = 1;
  std::int64_t step = 3;  ///< to be saved; 1 and 2 are there
  bool old_kernel = false;
};

/// Takes the folder and saves with threads as ranks; true once rank 0's save has returned.
bool save(const std::filesystem::path& root, const Crash& crash, FileSystem& files, const Sample& sample) {
  std::atomic<bool> acknowledged{false};
  ThreadGroups(crash.world).run([&](Group& group) {
    Store store(root, {.keep = 2}, files);
    store.take(group, owner_called("child"));
    store.save(group, Step(crash.step), share_of(sample, group.rank(), crash.world).slices, sample_state());
    if (group.rank() == 0) acknowledged = true;
  });
  return acknowledged;
}

struct Outcome {
  bool killed = false, acknowledged = false;
};

Outcome save_and_die(const std::filesystem::path& root, const Crash& crash, int operation, const Sample& sample) {
  int pipe[2];
  if (::pipe(pipe) != 0) throw std::runtime_error("pipe failed");
  pid_t child = ::fork();
  if (child == 0) {
    FailingFileSystem files({.fault = FailingFileSystem::Fault::kill, .at = operation, .old_kernel = crash.old_kernel});
    bool done = save(root, crash, files, sample);
    if (done && ::write(pipe[1], "a", 1) != 1) ::_exit(2);
    ::_exit(done ? 0 : 1);
  }
  ::close(pipe[1]);
  char letter = 0;
  bool acknowledged = ::read(pipe[0], &letter, 1) == 1;
  ::close(pipe[0]);
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
  return {WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, acknowledged};
}

/// The contents found at the restart: 0 none, else the seed of the sample.
std::uint64_t contents(const Store& store, const std::optional<Summary>& summary) {
  if (!summary) return 0;
  for (std::uint64_t seed : {1, 2, 33})
    if (compare(store, *summary, make_sample(seed)).empty()) return seed;
  return 99;
}

void kill_everywhere(const Crash& crash) {
  Sample fresh = make_sample(33);
  int points = 0;
  bool saw_old = false, saw_new = false;
  for (int operation = 0;; ++operation, ++points) {
    ASSERT_LT(operation, 5000);
    TemporaryFolder root;
    for (int step : {1, 2})
      ASSERT_TRUE(all_empty(
          save_as(root.path(), 1, Step(step), make_sample(static_cast<std::uint64_t>(step)), false, {.keep = 2})));
    Outcome outcome = save_and_die(root.path(), crash, operation, fresh);

    Alone alone;
    Store store(root.path(), {.keep = 2});
    store.take(alone, owner_called("successor"));
    std::uint64_t found = contents(store, store.newest_valid(alone));
    bool window = crash.old_kernel && crash.step == 2;  // step 2 is moved away before the new step 2 gets its name
    EXPECT_TRUE(found == 2 || found == 33 || (window && found == 1)) << "operation " << operation << ": " << found;
    EXPECT_TRUE(!outcome.acknowledged || found == 33) << "operation " << operation;
    (found == 33 ? saw_new : saw_old) = true;
    EXPECT_TRUE(entries_with_prefix(root.path(), ".stage-").empty());
    EXPECT_TRUE(entries_with_prefix(root.path(), ".trash-").empty());
    EXPECT_NO_THROW(store.save(alone, Step(4), share_of(fresh, 0, 1).slices, sample_state()));
    if (!outcome.killed) {
      EXPECT_TRUE(outcome.acknowledged);
      break;
    }
  }
  EXPECT_GT(points, 20);
  EXPECT_TRUE(saw_old && saw_new);
  std::printf("%d crash points with %d ranks\n", points, crash.world);
}

TEST(Crash, OneRankNewStep) {
  kill_everywhere({.world = 1});
}
TEST(Crash, TwoRanksNewStep) {
  kill_everywhere({.world = 2});
}
TEST(Crash, FourRanksNewStep) {
  kill_everywhere({.world = 4});
}
TEST(Crash, SameStepOtherContents) {
  kill_everywhere({.world = 2, .step = 2});
}
TEST(Crash, SameStepWithoutRenameFlags) {
  kill_everywhere({.world = 1, .step = 2, .old_kernel = true});
}
TEST(Crash, NewStepWithoutRenameFlags) {
  kill_everywhere({.world = 1, .old_kernel = true});
}
}  // namespace
}  // namespace distdl::checkpoint
