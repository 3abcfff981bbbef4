// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>

#include <gmock/gmock.h>

#include <distdl/base/errors.hpp>
#include <distdl/world/make_world.hpp>

namespace distdl::world {
namespace {
using ::testing::HasSubstr;

class MakeWorld : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"DISTDL_RANK", "DISTDL_WORLD_SIZE", "DISTDL_RENDEZVOUS", "DISTDL_LAUNCH_ID", "PMIX_RANK",
                             "SLURM_STEP_ID", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_JOB_ID"})
      ::unsetenv(name);
  }
  static void pretend_slurm_step_of(const char* tasks) {
    set("SLURM_JOB_ID", "17");
    set("SLURM_STEP_ID", "0");
    set("SLURM_PROCID", "1");
    set("SLURM_STEP_NUM_TASKS", tasks);
  }
  static void set(const char* name, const char* value) { ::setenv(name, value, 1); }
};

TEST_F(MakeWorld, IsAloneWithoutALauncher) {
  const auto world = make_world();
  EXPECT_EQ(world->size(), 1);
  EXPECT_EQ(world->rank(), Rank(0));
  EXPECT_EQ(world->all_gather_strings("me", Milliseconds(1)), std::vector<std::string>{"me"});
}

TEST_F(MakeWorld, FollowsOurOwnLauncherBeforeSlurm) {
  pretend_slurm_step_of("4");
  set("DISTDL_RANK", "2");
  set("DISTDL_WORLD_SIZE", "3");
  set("DISTDL_RENDEZVOUS", "/tmp");
  EXPECT_THROW(make_world(), ConfigError);  // no launch id
  set("DISTDL_LAUNCH_ID", "x");
  const auto world = make_world();
  EXPECT_EQ(world->rank(), Rank(2));
  EXPECT_EQ(world->size(), 3);
}

// A real step without PMIx is tested on a cluster in tests/comm/processes/process_test.cpp.
TEST_F(MakeWorld, RefusesCopiesOfRank0WhenNoPmixServerAnswers) {
  pretend_slurm_step_of("4");
  try {
    make_world();
    FAIL() << "no error";
  } catch (const SchedulerError& error) {
    EXPECT_THAT(error.what(), HasSubstr("has 4 tasks, but no PMIx server answers"));
    EXPECT_THAT(error.what(), HasSubstr("srun --mpi=pmix"));
  }
}

TEST_F(MakeWorld, MeetsInASharedFolderWhenNoPmixServerAnswers) {
  pretend_slurm_step_of("4");
  const auto world = make_world("/shared/meet");
  EXPECT_EQ(world->rank(), Rank(1));
  EXPECT_EQ(world->size(), 4);
  EXPECT_EQ(world->description(), "folder /shared/meet/slurm-17.0.0");
}

// With a real PMIx server and Open MPI: tests/cluster/program_test.py.
TEST_F(MakeWorld, LeavesTheStepsPmixToAChild) {
  pretend_slurm_step_of("4");
  set("PMIX_RANK", "1");
  EXPECT_EQ(make_world("/shared/meet", StepPmix::leave_to_child)->description(), "folder /shared/meet/slurm-17.0.0");
}

TEST_F(MakeWorld, StepOfOneTaskNeedsNoPmix) {
  pretend_slurm_step_of("1");
  EXPECT_EQ(make_world()->size(), 1);
}

}  // namespace
}  // namespace distdl::world
