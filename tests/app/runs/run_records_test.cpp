// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <stdlib.h>

#include <distdl/app/runs/run_records.hpp>
#include <distdl/base/random.hpp>
#include <distdl/observe/health/bad_nodes.hpp>
#include <distdl/observe/run/result.hpp>

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

TEST_F(RunRecordsTest, TellHowTheRunEnded) {
  launch::LaunchSpec spec;
  RunRecords records(run_, spec);
  records.attach(spec, 0);
  records.ended(static_cast<int>(ExitCode::superseded));
  EXPECT_FALSE(std::filesystem::exists(run_ / "result.json")) << "another start has the folder";
  records.ended(static_cast<int>(ExitCode::requeue));
  EXPECT_EQ(observe::read_result(run_).status, observe::ResultStatus::stopped);
  spec.events.began(2, {}, "ab12");
  spec.events.ended(137, "killed by SIGKILL", false);
  records.ended(137);
  const auto result = observe::read_result(run_);
  EXPECT_EQ(result.status, observe::ResultStatus::failed);
  EXPECT_EQ(result.code, 137);
  EXPECT_EQ(result.cause, "killed by SIGKILL");
  EXPECT_EQ(result.cause_code, "signal");
  records.ended(static_cast<int>(ExitCode::config), "run.spares is 7");
  EXPECT_EQ(observe::read_result(run_).cause, "run.spares is 7");
  std::vector<std::int64_t> codes;
  for (const auto& row : observe::read_journal(run_))
    if (const auto* const failed = row.as<records::RunFailed>()) codes.push_back(failed->code.value_or(0));
  EXPECT_THAT(codes, ElementsAre(137, 78));
}

TEST_F(RunRecordsTest, AJobThatIsRefusedLeavesTheResultAsItWas) {
  const auto train = [&] {
    std::ofstream(run_ / "journal.jsonl", std::ios::app) << R"({"event":"started","time":1})"
                                                            "\n";
  };
  train();
  observe::write_result(run_, observe::collect_result(run_));
  for (const auto code : {ExitCode::config, ExitCode::incompatible}) {
    launch::LaunchSpec spec;
    RunRecords records(run_, spec);
    EXPECT_TRUE(records.is_refused(static_cast<int>(code)));
    EXPECT_FALSE(records.is_refused(static_cast<int>(ExitCode::storage)));
    records.ended(static_cast<int>(code), "does not fit");
    EXPECT_EQ(observe::read_result(run_).status, observe::ResultStatus::finished);
    const auto journal = observe::read_journal(run_);
    EXPECT_TRUE(std::get<records::JobEnded>(journal.back().record).is_refused);
    EXPECT_EQ(cause_of(journal.at(journal.size() - 2).record), "does not fit") << "the journal tells of it";
  }
  launch::LaunchSpec spec;
  RunRecords records(run_, spec);
  train();
  EXPECT_FALSE(records.is_refused(static_cast<int>(ExitCode::config))) << "its loss became infinite";
  records.ended(static_cast<int>(ExitCode::config));
  EXPECT_EQ(observe::read_result(run_).status, observe::ResultStatus::failed);
}

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
