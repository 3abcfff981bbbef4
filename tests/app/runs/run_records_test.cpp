// SPDX-License-Identifier: Apache-2.0
#include <filesystem>

#include <gmock/gmock.h>
#include <stdlib.h>

#include <distdl/app/runs/run_records.hpp>
#include <distdl/base/random.hpp>
#include <distdl/observe/bad_nodes.hpp>

namespace distdl::app {
namespace {
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class RunRecordsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(run_);
    ::setenv("XDG_STATE_HOME", (folder_ / "state").c_str(), 1);
  }
  void TearDown() override {
    ::unsetenv("XDG_STATE_HOME");
    std::filesystem::remove_all(folder_);
  }
  std::filesystem::path folder_ = std::filesystem::path(::testing::TempDir()) / ("records_" + random_hex(8));
  std::filesystem::path run_ = folder_ / "run";
};

TEST_F(RunRecordsTest, NodesAreWrongThatAnAuditHasFoundSinceTheStart) {
  for (const double cool_down : {0.0, 24.0}) {
    observe::note_corrupt_node(run_, "n1", "another loss");
    observe::note_bad_node(run_, {"n2", "slow: matrix product"});
    launch::LaunchSpec spec;
    RunRecords records(run_, spec);
    records.attach(spec, cool_down);
    EXPECT_THAT(spec.wrong_nodes(), IsEmpty()) << "they were noted before";
    observe::note_bad_node(run_, {"n3", "wrong: digest"});
    observe::note_bad_node(run_, {"n1", "slow: matrix product"});
    EXPECT_THAT(spec.wrong_nodes(), IsEmpty()) << "no audit found them";
    observe::note_corrupt_node(run_, "n4", "another loss");
    EXPECT_THAT(spec.wrong_nodes(), ElementsAre("n4"));
    observe::note_corrupt_node(run_, "n1", "another loss");
    EXPECT_THAT(spec.wrong_nodes(), ElementsAre("n1", "n4")) << "again, in its cool-down";
  }
}
}  // namespace
}  // namespace distdl::app
