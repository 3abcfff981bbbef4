// SPDX-License-Identifier: Apache-2.0
#include <tuple>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <distdl/agent/launch_record.hpp>
#include <distdl/agent/messages.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/version.hpp>

namespace distdl::agent {
namespace {
using ::testing::HasSubstr;
using ::testing::StartsWith;

Decision some_decision() {
  Decision decision;
  decision.generation = Generation(3);
  decision.members = {NodeId(2), NodeId(0)};
  decision.spares = {NodeId(1)};
  decision.cause = "n1: rank 4 crashed";
  decision.wrong = {NodeId(1)};
  decision.newcomers = {NodeId(2)};
  decision.origin = {CauseKind::crashed, NodeId(1), 4};
  decision.proposer = NodeId(2);
  decision.progress = 100;
  decision.failures = 1;
  decision.losses = 2;
  decision.node_failures = {{NodeId(1), 1}};
  decision.crashed_after = 99;
  return decision;
}

TEST(Messages, ADecisionIsReadAsItWasWritten) {
  Decision decision = some_decision();
  EXPECT_EQ(decision_from(to_text(decision)), decision);
  decision.members.clear();
  decision.end = 75;
  decision.origin = {};
  decision.proposer.reset();
  EXPECT_EQ(decision_from(to_text(decision)), decision);
}

TEST(Messages, AStatusIsReadAsItWasWritten) {
  Status status;
  status.node = NodeId(1);
  status.sequence = 17;
  status.decision = some_decision();
  status.phase = Phase::ending;
  status.code = 137;
  status.cause = "a cause";
  status.origin = {CauseKind::out_of_memory, NodeId(1), 2};
  status.fault = "a fault";
  status.regrow = status.stop = true;
  status.progress = 100;
  status.step = 98;
  status.has_trained = true;
  status.hears = {true, false, true};
  status.leave = true;
  const auto read = status_from(to_text(status));
  ASSERT_TRUE(read);
  EXPECT_EQ(to_text(*read), to_text(status));
  EXPECT_EQ(read->origin, status.origin);
  EXPECT_EQ(read->step, 98);
  EXPECT_TRUE(read->has_trained);
  EXPECT_TRUE(read->leave);
}

LaunchRecord some_record() {
  LaunchRecord record{
      .id = "ab12", .version = DISTDL_VERSION, .job = "[train]", .arguments = {"job.toml", "--set", "a=b"}};
  record.more = {"--below", "12"};
  record.folder = "/data/runs";
  record.ranks = 8;
  record.min_nodes = 2;
  record.variables = {{"SLURM_JOB_ID", "17"}, {"SLURM_RESTART_COUNT", ""}};
  record.agents = {{"n1", "10.0.0.1 4000", ""}};
  record.secret = "secret";
  return record;
}

/// The error of a launch's record.
std::string refusal(const std::string& text, ExitCode code = ExitCode::corrupt) {
  try {
    launch_record_from(text, "launch.json");
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), code) << error.what();
    return error.what();
  }
  return "none";
}

TEST(Messages, ALaunchRecordIsReadAsItWasWritten) {
  const auto record = some_record();
  const auto read = launch_record_from(to_text(record), "launch.json");
  EXPECT_EQ(to_text(read), to_text(record));
  EXPECT_EQ(read.variables, record.variables);
  EXPECT_EQ(read.agents.front().address, "10.0.0.1 4000");
}

TEST(Messages, ADamagedLaunchRecordIsRefusedWithItsNameAndTheReason) {
  for (const char* text : {"", "{}", "[]", "nonsense", "{\"version\": 1}"})
    EXPECT_THAT(refusal(text), StartsWith("\"launch.json\" is damaged: ")) << text;
  const std::string good = to_text(some_record());
  for (const auto& [from, to, reason] : {std::tuple("\"ranks\":8", "\"ranks\":0", "it has 0 ranks"),
                                         {"\"ranks\":8", "\"ranks\":1e300", "a whole number was expected, not 1e+300"},
                                         {"\"ranks\":8", "\"ranks\":2147483647", "it has 2147483647 ranks"},
                                         {"\"ranks\":8", "\"ranks\":4294967297", "a whole number was expected"},
                                         {"\"min_nodes\":2", "\"min_nodes\":-1", "it needs -1 nodes"},
                                         {"\"ab12\"", "\"../../x\"", "\"../../x\" is no id of a launch"},
                                         {"\"ab12\"", "\"\"", "\"\" is no id of a launch"},
                                         {"\"ab12\"", "\"..\"", "\"..\" is no id of a launch"},
                                         {"\"secret\":\"secret\"", "\"secret\":\"\"", "it has no secret"},
                                         {"\"job.toml\",\"--set\",\"a=b\"", "", "it has no job file"}}) {
    std::string text = good;
    ASSERT_NE(text.find(from), std::string::npos) << text;
    text.replace(text.find(from), std::string(from).size(), to);
    EXPECT_THAT(refusal(text), HasSubstr(reason)) << text;
  }
  auto record = some_record();
  record.agents.clear();
  EXPECT_THAT(refusal(to_text(record)), HasSubstr("it has 0 agents"));
}

TEST(Messages, TheLaunchOfAnotherVersionIsToldWhateverItsRecordHas) {
  EXPECT_THAT(refusal("{\"version\": \"0.0.1\", \"ranks\": \"many\"}", ExitCode::config),
              HasSubstr("started by distdl 0.0.1"));
}

TEST(Messages, WhatAnOlderVersionDidNotWriteHasItsDefault) {
  std::string text = to_text(some_decision());
  const std::string newcomers = "\"newcomers\":[2],";
  ASSERT_NE(text.find(newcomers), std::string::npos) << text;
  text.erase(text.find(newcomers), newcomers.size());
  ASSERT_TRUE(decision_from(text));
  EXPECT_TRUE(decision_from(text)->newcomers.empty());
}

TEST(Messages, WhatIsNoneIsRefused) {
  for (const char* text : {"", "{}", "[]", "{\"generation\": -1}", "nonsense"}) {
    EXPECT_FALSE(decision_from(text)) << text;
    EXPECT_FALSE(status_from(text)) << text;
  }
}

TEST(Messages, ANumberThatIsNotWholeOrTooLargeIsRefused) {
  const std::string good = to_text(some_decision()), count = "\"failures\":1,";
  ASSERT_NE(good.find(count), std::string::npos) << good;
  for (const char* number : {"1.5", "1e300", "4294967296", "-1", "\"1\""}) {
    std::string text = good;
    text.replace(text.find(count), count.size(), fmt::format("\"failures\":{},", number));
    EXPECT_FALSE(decision_from(text)) << text;
  }
}

TEST(Messages, AKindOfCauseThatIsNotKnownYetIsUnknown) {
  std::string text = to_text(some_decision());
  const std::string kind = "\"kind\":2";
  const auto at = text.find(kind);
  ASSERT_NE(at, std::string::npos) << text;
  text.replace(at, kind.size(), "\"kind\":200");
  EXPECT_EQ(decision_from(text)->origin.kind, CauseKind::unknown);
}

}  // namespace
}  // namespace distdl::agent
