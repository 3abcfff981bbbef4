// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <distdl/agent/launch_record.hpp>
#include <distdl/agent/messages.hpp>

namespace distdl::agent {
namespace {

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

TEST(Messages, ALaunchRecordIsReadAsItWasWritten) {
  LaunchRecord record{.id = "ab12", .version = "0.2.0", .job = "[train]", .arguments = {"job.toml", "--set", "a=b"}};
  record.more = {"--below", "12"};
  record.folder = "/data/runs";
  record.ranks = 8;
  record.min_nodes = 2;
  record.variables = {{"SLURM_JOB_ID", "17"}, {"SLURM_RESTART_COUNT", ""}};
  record.agents = {{"n1", "10.0.0.1 4000", ""}};
  record.secret = "secret";
  const auto read = launch_record_from(to_text(record));
  ASSERT_TRUE(read);
  EXPECT_EQ(to_text(*read), to_text(record));
  EXPECT_EQ(read->variables, record.variables);
  EXPECT_EQ(read->agents.front().address, "10.0.0.1 4000");
  EXPECT_FALSE(launch_record_from("{}"));
}

TEST(Messages, WhatIsNoneIsRefused) {
  for (const char* text : {"", "{}", "[]", "{\"generation\": -1}", "nonsense"}) {
    EXPECT_FALSE(decision_from(text)) << text;
    EXPECT_FALSE(status_from(text)) << text;
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
