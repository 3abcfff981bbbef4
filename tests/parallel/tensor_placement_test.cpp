// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <distdl/parallel/tensor_placement.hpp>

namespace distdl::parallel {
namespace {
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(TensorPlacement, NamesTheFirstGroupThatLiesOnSeveralNodes) {
  const std::vector<std::string> nodes{"n1", "n1", "n1", "n2", "n2", "n2"};
  const auto node_of = [&](int rank) { return nodes.at(static_cast<std::size_t>(rank)); };
  EXPECT_THAT(divided_tensor_group({.data = 3, .tensor = 2}, node_of),
              AllOf(HasSubstr("ranks 2 to 3 lies on n1, n2"), HasSubstr("divisible by 2")));
  EXPECT_THAT(divided_tensor_group({.data = 2, .tensor = 3}, node_of), IsEmpty());
  EXPECT_THAT(divided_tensor_group({.data = 6}, node_of), IsEmpty()) << "without tensor ranks";
  EXPECT_THAT(divided_tensor_group({.pipeline = 2, .tensor = 3}, node_of), IsEmpty());
}

TEST(TensorPlacement, OfNodesWithSoManyRanks) {
  EXPECT_THAT(divided_tensor_group({.data = 3, .tensor = 2}, 3), HasSubstr("ranks 2 to 3 lies on node 0, node 1"));
  EXPECT_THAT(divided_tensor_group({.data = 2, .tensor = 2}, 1), HasSubstr("ranks 0 to 1 lies on node 0, node 1"));
  EXPECT_THAT(divided_tensor_group({.data = 4, .tensor = 2}, 4), IsEmpty());
  EXPECT_THAT(divided_tensor_group({.data = 1, .tensor = 2}, 3), IsEmpty()) << "one node has all";
}
}  // namespace
}  // namespace distdl::parallel
