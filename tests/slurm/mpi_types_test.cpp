// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "tests/slurm/slurm_fixture.hpp"
#include <distdl/slurm/mpi_types.hpp>
#include <distdl/slurm/nodes.hpp>

namespace distdl::slurm {
namespace {
using ::testing::ElementsAre;

TEST(MpiTypes, AreReadInTheFormsOfAllReleases) {
  EXPECT_THAT(
      mpi_types_in(
          "MPI plugin types are...\n\tnone\n\tpmix\nspecific pmix plugin versions available: pmix_v3,pmix_v4\n"),
      ElementsAre("none", "pmix", "pmix_v3", "pmix_v4"));
  EXPECT_THAT(mpi_types_in("srun: MPI types are...\nsrun: none\nsrun: pmi2\n"), testing::Contains("pmi2"));
}

TEST(MpiTypes, PmixIsTakenUnlessSrunListsOthers) {
  EXPECT_EQ(best_mpi_type({"none", "pmix"}), "pmix");
  EXPECT_EQ(best_mpi_type({"none", "pmi2", "cray_shasta"}), "none");
  EXPECT_EQ(best_mpi_type({}), "pmix") << "srun did not tell";
}

using PartitionNodesOf = FakeSlurm;
TEST_F(PartitionNodesOf, AreThoseOfTheDefaultOrTheNamedPartitions) {
  command("sinfo",
          "case $* in *--partition=batch,urgent*) printf 'n1 batch idle\\nn1 urgent idle\\nn2 batch mix\\n';; "
          "*) printf 'n1 batch* alloc\\nn2 batch* comp*\\nn3 other idle\\nn4 batch* down*\\n';; esac");
  EXPECT_THAT(partition_nodes("").usable, ElementsAre("n1", "n2"));
  EXPECT_THAT(partition_nodes("").others, ElementsAre("n4"));
  EXPECT_THAT(partition_nodes("batch,urgent").usable, ElementsAre("n1", "n2"));
  command("sinfo", "echo no controller >&2; exit 1");
  EXPECT_THROW(partition_nodes(""), SchedulerError);
}

TEST_F(PartitionNodesOf, HaveMemory) {
  command("sinfo",
          "case $* in *--partition=big*) printf '512000 big\\n';; *--partition=none*) printf '1 none\\n';; "
          "*) printf '64000 batch*\\n128000 batch*\\n512000 big\\n';; esac");
  EXPECT_EQ(most_node_memory(""), 128000ULL << 20);
  EXPECT_EQ(most_node_memory("big"), 512000ULL << 20);
  EXPECT_FALSE(most_node_memory("none")) << "slurm.conf does not say";
  command("sinfo", "exit 1");
  EXPECT_FALSE(most_node_memory(""));
}

TEST_F(PartitionNodesOf, ExclusionReplacesTheListOfAJob) {
  scontrol("echo \"$*\" > " + (folder_ / "asked").string());
  scheduler().exclude_nodes("17", {"n1", "n2"});
  EXPECT_EQ(asked(), "update JobId=17 ExcNodeList=n1,n2");
  scheduler().exclude_nodes("17", {});
  EXPECT_EQ(asked(), "update JobId=17 ExcNodeList=");
  scontrol("echo 'Job is no longer pending execution' >&2; exit 1");
  EXPECT_THROW(scheduler().exclude_nodes("17", {"n1"}), SchedulerError);
}
}  // namespace
}  // namespace distdl::slurm
