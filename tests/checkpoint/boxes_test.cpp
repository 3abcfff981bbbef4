// SPDX-License-Identifier: Apache-2.0
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <distdl/checkpoint/boxes.hpp>

namespace distdl::checkpoint {
namespace {
using tensor::Box;
using tensor::Shape;

TEST(Boxes, CoverExactlyAcceptsAGridAndRefusesGapsAndOverlaps) {
  std::vector<Box> grid{{{0, 0}, {2, 3}}, {{0, 3}, {2, 1}}, {{2, 0}, {1, 4}}};
  EXPECT_TRUE(cover_exactly({3, 4}, grid));
  EXPECT_FALSE(cover_exactly({3, 4}, {grid[0], grid[1]}));
  EXPECT_FALSE(cover_exactly({3, 4}, {grid[0], grid[0], grid[0], grid[1]}));
  EXPECT_FALSE(cover_exactly({3, 4}, {{{0, 0}, {2, 3}}, {{0, 2}, {2, 1}}, {{2, 0}, {1, 4}}}));
  EXPECT_TRUE(cover_exactly({}, {{}}));
  EXPECT_FALSE(cover_exactly({}, {}));
  EXPECT_TRUE(cover_exactly({0, 4}, {}));
}

TEST(Boxes, LiesInsideSurvivesHugeNumbers) {
  std::int64_t huge = INT64_MAX;
  EXPECT_FALSE(lies_inside({{huge}, {huge}}, {10}));
  EXPECT_FALSE(lies_inside({{-1}, {2}}, {10}));
  EXPECT_FALSE(lies_inside({{0}, {-1}}, {10}));
  EXPECT_FALSE(lies_inside({{0, 0}, {1, 1}}, {10}));
  EXPECT_TRUE(lies_inside({{9}, {1}}, {10}));
}

TEST(Boxes, WholeRowsAreOneRun) {
  int runs = 0;
  for_each_stretch({{4, 0, 0}, {8, 5, 6}}, {{2, 0, 0}, {6, 5, 6}}, [&](const Stretch& stretch) {
    ++runs;
    EXPECT_EQ(stretch.from, 0);
    EXPECT_EQ(stretch.to, 2 * 30);
    EXPECT_EQ(stretch.count, 4 * 30);
  });
  EXPECT_EQ(runs, 1);
}

// Random boxes of random tensors against a copy element by element.
TEST(Boxes, RunsCarryWhatTwoBoxesShare) {
  std::mt19937 random(7);
  auto below = [&](std::int64_t n) { return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n)); };
  for (int trial = 0; trial < 500; ++trial) {
    Shape shape(static_cast<std::size_t>(1 + below(4)));
    Box source{shape, shape}, target{shape, shape};
    for (std::size_t d = 0; d < shape.size(); ++d) {
      shape[d] = 1 + below(5);
      for (Box* box : {&source, &target}) {
        box->offset[d] = below(shape[d]);
        box->extent[d] = 1 + below(shape[d] - box->offset[d]);
      }
    }
    auto label = [&](const Box& box, std::int64_t i) {  // coordinates in the tensor as one number; -1 outside of target
      std::int64_t at = 0, scale = 1, rest = i;
      bool shared = true;
      for (std::size_t d = shape.size(); d-- > 0; rest /= box.extent[d], scale *= shape[d]) {
        std::int64_t x = box.offset[d] + rest % box.extent[d];
        shared &= x >= source.offset[d] && x < source.offset[d] + source.extent[d];
        at += x * scale;
      }
      return shared ? at : -1;
    };
    std::vector<std::int64_t> out(static_cast<std::size_t>(tensor::element_count(target.extent)), -1), expected = out;
    for (std::size_t i = 0; i < out.size(); ++i) expected[i] = label(target, static_cast<std::int64_t>(i));
    std::int64_t previous = -1;
    for_each_stretch(source, target, [&](const Stretch& stretch) {
      EXPECT_GT(stretch.from, previous);
      previous = stretch.from + stretch.count - 1;
      for (std::int64_t i = 0; i < stretch.count; ++i)
        out.at(static_cast<std::size_t>(stretch.to + i)) = label(source, stretch.from + i);
    });
    EXPECT_EQ(out, expected);
  }
}

TEST(Boxes, SlabsFollowEachOtherInRowMajorOrder) {
  for (std::int64_t most : {1, 2, 5, 7, 12, 1000}) {
    Shape shape{3, 4, 5};
    std::int64_t next = 0;
    for_each_slab(shape, most, [&](const Box& box) {
      EXPECT_LE(tensor::element_count(box.extent), most);
      for_each_stretch(tensor::whole(shape), box, [&](const Stretch& stretch) {
        EXPECT_EQ(stretch.from, next);
        next += stretch.count;
      });
    });
    EXPECT_EQ(next, 60);
  }
  int scalars = 0;
  for_each_slab({}, 10, [&](const Box&) { ++scalars; });
  EXPECT_EQ(scalars, 1);
}
}  // namespace
}  // namespace distdl::checkpoint
