// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <distdl/app/checks/node_verdicts.hpp>

namespace distdl::app {
namespace {
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

NodeCheckReport good(const std::string& node) {
  return {node, "cpu", "d1", "", 200e9, 400e6, 2e9, 10e-6, 2e9, ""};
}

/// n1, n2 ...; all good.
struct Nodes {
  std::vector<std::string> names;
  std::vector<NodeCheckReport> reports;
  explicit Nodes(int count) {
    for (int i = 1; i <= count; ++i) {
      names.push_back("n" + std::to_string(i));
      reports.push_back(good(names.back()));
    }
  }
  NodeCheckReport& operator[](int number) { return reports.at(static_cast<std::size_t>(number - 1)); }
  std::vector<NodeVerdict> judge() const { return judge_nodes(names, reports, 0.5); }
  std::string healths() const {
    std::string text;
    for (const auto& verdict : judge()) text += std::string(OneOf<NodeHealth>(verdict.health).name()) + " ";
    return text;
  }
};

TEST(NodeVerdicts, TheMajorityIsRight) {
  Nodes nodes(3);
  EXPECT_EQ(nodes.healths(), "ok ok ok ");
  nodes[2].digest = "d2";
  EXPECT_EQ(nodes.healths(), "ok wrong ok ");
  EXPECT_THAT(nodes.judge()[1].cause, HasSubstr("other gradients than 2 nodes"));
}

TEST(NodeVerdicts, OfTwoThatDifferBothAreNamed) {
  Nodes nodes(2);
  nodes[2].digest = "d2";
  EXPECT_EQ(nodes.healths(), "wrong wrong ");
  EXPECT_THAT(nodes.judge()[0].cause, HasSubstr("n1 and n2 compute different gradients"));
}

TEST(NodeVerdicts, ComparesOnlyNodesOfOneKind) {
  Nodes nodes(4);
  for (int n : {3, 4}) {
    nodes[n].kind = "gpu";
    nodes[n].digest = "d2";
    nodes[n].flops = 60e12;
  }
  EXPECT_EQ(nodes.healths(), "ok ok ok ok ");
}

TEST(NodeVerdicts, WhatANodeSaysOfItselfIsBelieved) {
  Nodes nodes(2);
  nodes[1].wrong = "reads other bytes than it wrote";
  EXPECT_EQ(nodes.healths(), "wrong ok ");
}

TEST(NodeVerdicts, SlowIsRelativeToTheMedian) {
  Nodes nodes(3);
  nodes[1].flops = 99e9;
  nodes[2].link_rate = 0.9e9;
  nodes[3].write_rate = 190e6;  // 4 MiB in 22 ms
  EXPECT_EQ(nodes.healths(), "slow slow ok ");
  EXPECT_EQ(nodes.judge()[0].cause, "matrix product: 99 GFLOP/s, the median is 200");
  nodes[3].write_rate = 30e6;
  EXPECT_EQ(nodes.healths(), "slow slow slow ");
}

TEST(NodeVerdicts, AShortLatencyIsNeverSlow) {
  Nodes nodes(3);
  nodes[2].latency = 900e-6;
  EXPECT_EQ(nodes.healths(), "ok ok ok ");
  nodes[2].latency = 2e-3;
  EXPECT_EQ(nodes.healths(), "ok slow ok ");
}

TEST(NodeVerdicts, NamesWhoDidNotReportOrIsNotReached) {
  Nodes nodes(3);
  nodes[2].unconnected = "no route";
  nodes.reports.erase(nodes.reports.begin());
  EXPECT_EQ(nodes.healths(), "silent ok ok ") << "one of two: nobody knows whose cable it is";
  nodes.reports.push_back(good("n1"));
  EXPECT_EQ(nodes.healths(), "ok silent ok ");
}

TEST(NodeVerdicts, ASecondLookForgivesWhatIsNotWrong) {
  const auto at = [](NodeHealth health) { return std::vector<NodeVerdict>{{"n1", health}}; };
  EXPECT_EQ(confirm(at(NodeHealth::slow), at(NodeHealth::ok))[0].health, NodeHealth::ok);
  EXPECT_EQ(confirm(at(NodeHealth::silent), at(NodeHealth::slow))[0].health, NodeHealth::slow);
  EXPECT_EQ(confirm(at(NodeHealth::wrong), at(NodeHealth::ok))[0].health, NodeHealth::wrong);
  EXPECT_EQ(confirm(at(NodeHealth::ok), at(NodeHealth::wrong))[0].health, NodeHealth::wrong);
}

TEST(NodeVerdicts, ASecondLookForgivesWhatWasSlowOnlyOnce) {
  Nodes first(3), second(3);
  first[3].flops = second[2].flops = 20e9;  // other processes were busy there
  first[3].link_rate = second[3].link_rate = 0.2e9;
  first[2].write_rate = 10e6;
  const auto both = confirm(first.judge(), second.judge());
  EXPECT_EQ(both[1].health, NodeHealth::ok);
  EXPECT_EQ(both[1].cause, "");
  EXPECT_EQ(both[2].health, NodeHealth::slow);
  EXPECT_EQ(both[2].cause, "network: 200 MB/s, the median is 2e+03");
  second[2].flops = 200e9;
  second[3].flops = 20e9;
  EXPECT_EQ(confirm(first.judge(), second.judge())[2].cause,
            "matrix product: 20 GFLOP/s, the median is 200 and network: 200 MB/s, the median is 2e+03");
}

TEST(NodeVerdicts, LeavesOutTheWorstAndKeepsWhatIsNeeded) {
  const std::vector<NodeVerdict> verdicts{{"n1", NodeHealth::slow}, {"n2"}, {"n3", NodeHealth::wrong}, {"n4"}};
  const auto names = [&](std::size_t needed) {
    std::vector<std::string> all;
    for (const auto& verdict : choose_excluded(verdicts, needed)) all.push_back(verdict.node);
    return all;
  };
  EXPECT_THAT(names(2), ElementsAre("n3", "n1"));
  EXPECT_THAT(names(3), ElementsAre("n3"));
  EXPECT_THAT(names(4), ElementsAre());
  EXPECT_THAT(names(9), ElementsAre());
}

TEST(NodeVerdicts, TheTableShowsTheBadAndTheMedianOfTheGood) {
  Nodes nodes(4);
  nodes[3].flops = 20e9;
  const auto lines = table_of(nodes.judge());
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_THAT(lines[1], HasSubstr("n3"));
  EXPECT_THAT(lines[1], HasSubstr("slow: matrix product: 20 GFLOP/s, the median is 200"));
  EXPECT_THAT(lines[2], HasSubstr("3 nodes"));
}

TEST(NodeVerdicts, LinksThatWereNotMeasuredAreNamedAndBlamedOnNobody) {
  Nodes nodes(3);
  EXPECT_EQ(unmeasured_links(nodes.judge()), "");
  for (int n : {1, 2, 3}) {
    nodes[n].link_rate = nodes[n].latency = 0;
    nodes[n].unconnected = "no route";
  }
  EXPECT_EQ(nodes.healths(), "ok ok ok ");
  EXPECT_EQ(unmeasured_links(nodes.judge()), "the links of n1 and n2 and n3 were not measured: no route");
  EXPECT_THAT(table_of(nodes.judge()).at(1), ContainsRegex("3 nodes +200\\.0 +400\\.0 +2000\\.0 +- +-  ok, medians"));
  nodes[1] = good("n1");
  nodes[2] = good("n2");
  EXPECT_EQ(nodes.healths(), "ok ok silent ");
  EXPECT_EQ(unmeasured_links(nodes.judge()), "") << "the verdict on n3 tells it";
}

TEST(NodeReports, SurviveTheFile) {
  auto report = good("n1");
  report.wrong = "a \"reason\"\n";
  const auto back = node_report_from(to_text(report));
  ASSERT_TRUE(back);
  EXPECT_EQ(to_text(*back), to_text(report));
  EXPECT_FALSE(node_report_from(to_text(report).substr(0, 20)));
  EXPECT_FALSE(node_report_from("{}"));
}
}  // namespace
}  // namespace distdl::app
