// SPDX-License-Identifier: Apache-2.0
#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/comm/connected_threads.hpp"
#include <distdl/app/checks/fabric_check.hpp>

namespace distdl::app {
namespace {
using testing::AllOf;
using testing::HasSubstr;

/// One rank on each of five hosts, all pairs alike.
FabricReport network() {
  FabricReport report;
  for (int a = 0; a < 5; ++a) {
    report.hosts.push_back("n" + std::to_string(a));
    for (int b = a + 1; b < 5; ++b) report.links.push_back({Rank(a), Rank(b), false, 2e-6, 5e9, 10e9});
  }
  return report;
}
FabricLink& link(FabricReport& report, int a, int b) {
  for (auto& each : report.links)
    if (each.a == Rank(a) && each.b == Rank(b)) return each;
  throw std::out_of_range("no such link");
}

TEST(FabricCheck, MeasuresAllLinksOfARingAndTellsThemToAllRanks) {
  comm::on_threads(3, [](comm::Communicator& communicator) {
    const auto report = measure_ring(communicator);
    EXPECT_EQ(report.links.size(), 3u);
    for (const auto& each : report.links)
      EXPECT_TRUE(each.latency > 0 && each.latency < 1e8 && each.small_rate > 0 && each.large_rate > 0) << each.a.value;
  });
}

TEST(FabricCheck, FindsNothingWhereAllAreAlike) {
  auto report = network();
  link(report, 0, 1).large_rate *= 0.6;
  check_fabric(report);
  EXPECT_TRUE(report.slow.empty());
  EXPECT_TRUE(report.advice.empty());
}

TEST(FabricCheck, NamesAHostWhoseLinksAreSlow) {
  auto report = network();
  for (auto& each : report.links)
    if (each.a == Rank(3) || each.b == Rank(3)) each.large_rate = 1e9;
  check_fabric(report);
  EXPECT_EQ(report.slow.size(), 4u);
  ASSERT_EQ(report.advice.size(), 1u);
  EXPECT_THAT(report.advice[0], AllOf(HasSubstr("host n3"), HasSubstr("4 of 4"), HasSubstr("--exclude=n3")));
  EXPECT_THAT(to_text(report), HasSubstr("1.000 GB/s, but good links have 10.000"));
}

TEST(FabricCheck, NamesTheSlowHostAmongThree) {
  FabricReport report;
  report.hosts = {"n0", "n1", "n2"};
  report.links = {{Rank(0), Rank(1), false, 2e-6, 5e9, 10e9},
                  {Rank(0), Rank(2), false, 9e-6, 5e9, 10e9},
                  {Rank(1), Rank(2), false, 9e-6, 5e9, 10e9}};
  check_fabric(report);
  EXPECT_EQ(report.slow.size(), 2u);
  ASSERT_EQ(report.advice.size(), 1u);
  EXPECT_THAT(report.advice[0], AllOf(HasSubstr("host n2"), HasSubstr("2 of 2")));
}

TEST(FabricCheck, PointsAtTheSwitchForASingleLink) {
  auto report = network();
  link(report, 1, 4).latency = 5e-6;
  check_fabric(report);
  ASSERT_EQ(report.slow.size(), 1u);
  ASSERT_EQ(report.advice.size(), 1u);
  EXPECT_THAT(report.advice[0], HasSubstr("switch"));
}

TEST(FabricCheck, ComparesLinksOfOneClassOnly) {
  auto report = network();
  report.hosts.push_back("n0");
  report.links.push_back({Rank(0), Rank(5), true, 3e-7, 5e8, 1e8});  // the only one within a node
  check_fabric(report);
  EXPECT_TRUE(report.slow.empty());
}
}  // namespace
}  // namespace distdl::app
