// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "tests/slurm/slurm_fixture.hpp"
#include <distdl/app/runs/avoided_nodes.hpp>

namespace distdl::app {
namespace {
using ::testing::ElementsAre;
using ::testing::IsEmpty;

const std::vector<observe::BadNode> kBad{{"n3", "wrong"}, {"n1", "slow"}};
const slurm::PartitionNodes kUsable{{"n1", "n2", "n3", "n4"}, {}};

TEST(AvoidedNodes, NeverSoManyThatTheJobCannotStart) {
  EXPECT_THAT(choose_avoided(kBad, kUsable, "", 2), ElementsAre("n3", "n1"));
  EXPECT_THAT(choose_avoided(kBad, kUsable, "", 3), ElementsAre("n3")) << "the newest";
  EXPECT_THAT(choose_avoided(kBad, kUsable, "", 4), IsEmpty());
  EXPECT_THAT(choose_avoided(kBad, kUsable, "", 9), IsEmpty());
}

TEST(AvoidedNodes, CountsWhatTheUserHasExcluded) {
  EXPECT_THAT(choose_avoided(kBad, kUsable, "n[2-4]", 1), IsEmpty()) << "only n1 is left";
  EXPECT_THAT(choose_avoided(kBad, kUsable, "n4", 2), ElementsAre("n3"));
}

TEST(AvoidedNodes, NodesThatAreDownMayBeBackWhenTheJobStarts) {
  EXPECT_THAT(choose_avoided(kBad, {{"n1", "n2"}, {"n3"}}, "", 1), ElementsAre("n3", "n1"));
  EXPECT_THAT(choose_avoided(kBad, {{"n1", "n2"}, {"n3"}}, "", 2), ElementsAre("n3"));
  EXPECT_THAT(choose_avoided(kBad, {{"n1", "n2"}, {"n3"}}, "", 3), IsEmpty()) << "the job waits for a node anyway";
  EXPECT_THAT(choose_avoided(kBad, {{"n2"}, {"n3"}}, "n3", 1), IsEmpty());
  EXPECT_THAT(choose_avoided(kBad, {{"n2"}, {}}, "", 1), IsEmpty()) << "Slurm refuses nodes that it does not know";
}

class ExcludedNodes : public slurm::FakeSlurm {
 protected:
  void SetUp() override {
    FakeSlurm::SetUp();
    std::filesystem::create_directories(run());
    scontrol("cd " + folder_.string() +
             "\ncase $1 in\nshow) read -r e < excluded; echo \"JobId=17 JobState=PENDING Partition=batch NumNodes=1 "
             "Restarts=0 ExcNodeList=$e\";;\nupdate) for w; do case $w in ExcNodeList=*) echo ${w#*=} > excluded;; "
             "esac; done;;\nesac");
    command("sinfo", "for n in 1 2 3 4 5; do echo n$n batch idle; done");
  }
  std::filesystem::path run() const { return folder_ / "run"; }
};

TEST_F(ExcludedNodes, ThoseOfTheUserStayWhenTheCoolDownIsOver) {
  answer("excluded", "n3,n5\n");
  observe::note_bad_node(run(), {"n3", "wrong", "16"});
  observe::note_bad_node(run(), {"n4", "slow", "16"});
  exclude_bad_nodes("17", run(), 1);
  EXPECT_EQ(asked("excluded"), "n3,n4,n5");
  exclude_bad_nodes("17", run(), 0);
  EXPECT_EQ(asked("excluded"), "n3,n5");
}
}  // namespace
}  // namespace distdl::app
