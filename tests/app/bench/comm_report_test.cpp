// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <distdl/app/bench/comm_plot.hpp>
#include <distdl/app/bench/comm_report.hpp>

namespace distdl::app {
namespace {
using testing::ElementsAre;
using testing::HasSubstr;

CommReport report() {
  CommReport report;
  report.ranks = 4;
  report.hosts = {"a", "a", "b", "b"};
  report.nodes = 2;
  report.type = "float32";
  report.network_rate = 1e9;
  report.peers = {{"other", "Other <1>"}, {"absent", "Absent 2"}};
  for (std::size_t bytes : {1u << 10, 1u << 20}) {
    CommPoint point;
    point.bytes = bytes;
    point.algorithm = "hierarchical";
    point.limit.seconds = {1e-6, 3e-6, 1e-6};
    point.ours.seconds = {2e-6, 4e-6, 3e-6};
    point.peers = {{"other", "", {{8e-6, 4e-6, 9e-6}}}, {"absent", "it gave no answer", {}}};
    report.points.push_back(point);
  }
  return report;
}

TEST(CommReport, TakesRatiosRoundByRound) {
  const auto all = report();
  EXPECT_THAT(ratios(all.points[0], all.points[0].peers[0]), ElementsAre(1, 3, 4));
  const auto row = to_json(all)["points"][0];
  EXPECT_DOUBLE_EQ(row["distdl"]["median_s"].get<double>(), 3e-6);
  EXPECT_DOUBLE_EQ(row["distdl"]["algorithm_bandwidth"].get<double>(), 1024 / 3e-6);
  EXPECT_DOUBLE_EQ(row["distdl"]["bus_bandwidth"].get<double>(), 1.5 * 1024 / 3e-6);
  EXPECT_DOUBLE_EQ(row["distdl"]["fraction_of_limit"].get<double>(), 0.5);  // of 1/2, 3/4 and 1/3
  EXPECT_EQ(row["peers"]["other"]["ratio"]["median"], 3);
  EXPECT_EQ(row["peers"]["absent"]["refused"], "it gave no answer");
  EXPECT_THAT(table_row(all, all.points[0]), HasSubstr("8.00 us = 3.00x (1.00-4.00)"));
}

TEST(CommReport, KnowsTheLeastTraffic) {
  EXPECT_DOUBLE_EQ(bus_factor(Operation::all_reduce, 2), 1);
  EXPECT_DOUBLE_EQ(bus_factor(Operation::all_gather, 4), 0.75);
  EXPECT_DOUBLE_EQ(memory_traffic(Operation::all_reduce, 2), 4);      // each reads and writes its half of both
  EXPECT_DOUBLE_EQ(network_traffic(Operation::all_reduce, 4, 2), 1);  // half to the other node, half back
}

TEST(CommPlot, DrawsALinePerLibraryThatAnswered) {
  const auto svg = plot(report());
  for (const char* name : {"distdl", "other", "measured limit"})
    EXPECT_THAT(svg, HasSubstr("<title>" + std::string(name) + "</title>"));
  EXPECT_THAT(svg, Not(HasSubstr("absent")));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(svg, Not(HasSubstr("inf")));
  EXPECT_THAT(svg, HasSubstr("1 KiB"));
}
}  // namespace
}  // namespace distdl::app
