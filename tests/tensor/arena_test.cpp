// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <distdl/base/errors.hpp>
#include <distdl/tensor/arena.hpp>

namespace distdl::tensor {
namespace {
TEST(ArenaLayout, PutsEachTensorOnItsOwnLine) {
  ArenaLayout layout;
  EXPECT_EQ(layout.add("a", {3, 5}).offset, 0u);
  EXPECT_EQ(layout.add("b", {1}).offset, 16u);
  EXPECT_EQ(layout.add("c", {16}).offset, 32u);
  EXPECT_EQ(layout.size(), 48u);
  EXPECT_EQ(layout.find("b")->count, 1u);
  EXPECT_EQ(layout.find("d"), nullptr);
}

TEST(ArenaLayout, RefusesTwoTensorsOfOneName) {
  ArenaLayout layout;
  layout.add("a", {1});
  EXPECT_THROW(layout.add("a", {2}), ConfigError);
}
}  // namespace
}  // namespace distdl::tensor
