// SPDX-License-Identifier: Apache-2.0
#include <numeric>
#include <vector>

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

/// Rows 1, 2 and 5 of a tensor of six.
TEST(TensorView, KnowsItsPiecesOfAWholeTensor) {
  ArenaLayout layout;
  const auto view =
      layout.add("a[1]", {3, 2}, Role::parameter, PartOf{"a", {6, 2}, {{{1, 0}, {2, 2}}, {{5, 0}, {1, 2}}}});
  EXPECT_EQ(view.whole_name(), "a");
  EXPECT_EQ(view.whole_shape(), (Shape{6, 2}));
  const auto all = pieces_of(view, whole(view.shape));
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[1].box, (Box{{5, 0}, {1, 2}}));
  EXPECT_EQ(all[1].offset, 4u);
  const auto some = pieces_of(view, {{1, 0}, {2, 2}});
  ASSERT_EQ(some.size(), 2u);
  EXPECT_EQ(some[0].box, (Box{{2, 0}, {1, 2}}));
  EXPECT_EQ(some[0].offset, 2u);
  std::vector<float> values(12), part(6);
  std::iota(values.begin(), values.end(), 0.0f);
  copy_part(view, values, part);
  EXPECT_EQ(part, (std::vector<float>{2, 3, 4, 5, 10, 11}));
}

TEST(TensorView, MayHaveColumnsOfAWholeTensor) {
  ArenaLayout layout;
  const auto view = layout.add("a[1]", {2, 2}, Role::parameter, PartOf{"a", {2, 6}, {{{0, 2}, {2, 2}}}});
  const auto second = pieces_of(view, {{1, 0}, {1, 2}});
  ASSERT_EQ(second.size(), 1u);
  EXPECT_EQ(second[0].box, (Box{{1, 2}, {1, 2}}));
  std::vector<float> values(12), part(4);
  std::iota(values.begin(), values.end(), 0.0f);
  copy_part(view, values, part);
  EXPECT_EQ(part, (std::vector<float>{2, 3, 8, 9}));
}
}  // namespace
}  // namespace distdl::tensor
