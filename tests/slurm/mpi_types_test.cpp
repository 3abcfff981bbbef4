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

using UsableNodes = FakeSlurm;
TEST_F(UsableNodes, AreThoseOfTheDefaultOrTheNamedPartitions) {
  command("sinfo",
          "case $* in *--partition=batch,urgent*) printf 'n1 batch\\nn1 urgent\\nn2 batch\\n';; "
          "*) printf 'n1 batch*\\nn2 batch*\\nn3 other\\n';; esac");
  EXPECT_THAT(usable_nodes(""), ElementsAre("n1", "n2"));
  EXPECT_THAT(usable_nodes("batch,urgent"), ElementsAre("n1", "n2"));
  command("sinfo", "echo no controller >&2; exit 1");
  EXPECT_THROW(usable_nodes(""), SchedulerError);
}

TEST_F(UsableNodes, ExclusionReplacesTheListOfAJob) {
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
