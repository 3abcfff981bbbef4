// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <unistd.h>

#include <distdl/base/clock.hpp>
#include <distdl/observe/health/bad_nodes.hpp>

namespace distdl::observe {
namespace {
TEST(BadNodes, KeepsTheNewestEntryOfEachNode) {
  const auto folder = std::filesystem::path(::testing::TempDir()) / ("bad_nodes_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  EXPECT_TRUE(read_bad_nodes(folder).empty());
  note_bad_node(folder, {"n1", "slow", "17"});
  note_bad_node(folder, {"n2", "slow", "17"});
  note_bad_node(folder, {"n1", "wrong: \"bits\"", "18"});
  std::ofstream(folder / "bad-nodes.jsonl", std::ios::app) << "{\"event\":\"bad_node\",\"nodes\":7}\nno row\n";
  const auto nodes = read_bad_nodes(folder);
  ASSERT_EQ(nodes.size(), 2u);
  EXPECT_EQ(nodes[0].node, "n1");
  EXPECT_EQ(nodes[0].cause, "wrong: \"bits\"");
  EXPECT_EQ(nodes[0].job, "18");
  EXPECT_NEAR(nodes[0].time, seconds_since_1970(), 60);
  EXPECT_EQ(nodes[1].node, "n2");
  note_corrupt_node(folder, "n2", "why");
  const auto again = read_bad_nodes(folder);
  EXPECT_EQ(again[0].cause, "silent corruption: why");
  EXPECT_TRUE(is_corrupt(again[0]));
  EXPECT_FALSE(is_corrupt(again[1])) << again[1].cause;
  EXPECT_TRUE(read_exclusion(folder, "17").empty());
  note_exclusion(folder, "17", {"n1"});
  note_exclusion(folder, "18", {"n3"});
  note_exclusion(folder, "17", {"n1", "n2"});
  EXPECT_EQ(read_exclusion(folder, "17"), (std::vector<std::string>{"n1", "n2"}));
  note_exclusion(folder, "17", {});
  EXPECT_TRUE(read_exclusion(folder, "17").empty());
  EXPECT_EQ(read_bad_nodes(folder).size(), 2u) << "these rows are none of bad nodes";
  std::filesystem::remove_all(folder);
}
}  // namespace
}  // namespace distdl::observe
