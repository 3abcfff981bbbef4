// SPDX-License-Identifier: Apache-2.0
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <distdl/checkpoint/format/hyperslabs.hpp>

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

// Against counting each element, on random boxes of which many nearly cover.
TEST(Boxes, CoverExactlyAgreesWithCounting) {
  std::mt19937 random(11);
  auto below = [&](std::int64_t n) { return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n)); };
  int covers = 0, not_quite = 0;
  for (int trial = 0; trial < 20'000; ++trial) {
    Shape shape{1 + below(4), 1 + below(4), 1 + below(3)};
    std::vector<Box> boxes{tensor::whole(shape)};
    for (int cuts = 0; cuts < 4; ++cuts) {  // cut one in two
      std::size_t d = random() % 3;
      Box& box = boxes[random() % boxes.size()];
      if (box.extent[d] < 2) continue;
      Box rest = box;
      box.extent[d] = 1 + below(box.extent[d] - 1);
      rest.offset[d] += box.extent[d];
      rest.extent[d] -= box.extent[d];
      boxes.push_back(rest);
    }
    if (trial % 2) {  // and move one to another place where it lies inside, or give it twice instead of another
      Box& box = boxes[random() % boxes.size()];
      if (random() % 2)
        for (std::size_t d = 0; d < 3; ++d) box.offset[d] = below(shape[d] - box.extent[d] + 1);
      else
        box = boxes[random() % boxes.size()];
    }
    std::vector<int> count(static_cast<std::size_t>(tensor::element_count(shape)));
    for (const Box& box : boxes)
      for_each_range(box, tensor::whole(shape), [&](const ElementRange& range) {
        for (std::int64_t i = 0; i < range.count; ++i) ++count[static_cast<std::size_t>(range.to + i)];
      });
    bool expected = std::all_of(count.begin(), count.end(), [](int n) { return n == 1; });
    ASSERT_EQ(cover_exactly(shape, boxes), expected);
    ++(expected ? covers : not_quite);
  }
  EXPECT_GT(covers, 5000);
  EXPECT_GT(not_quite, 2000);
}

TEST(Boxes, CoverExactlyTakesNoLongerThanItsBoxesAreMany) {
  constexpr std::int64_t kMany = 300'000;  // in pairs, these would take minutes
  std::vector<Box> columns;
  for (std::int64_t i = 0; i < kMany; ++i) columns.push_back({{0, i}, {7, 1}});
  EXPECT_TRUE(cover_exactly({7, kMany}, columns));
  columns[5].offset[1] = 6;
  EXPECT_FALSE(cover_exactly({7, kMany}, columns));
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
  for_each_range({{4, 0, 0}, {8, 5, 6}}, {{2, 0, 0}, {6, 5, 6}}, [&](const ElementRange& range) {
    ++runs;
    EXPECT_EQ(range.from, 0);
    EXPECT_EQ(range.to, 2 * 30);
    EXPECT_EQ(range.count, 4 * 30);
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
    for_each_range(source, target, [&](const ElementRange& range) {
      EXPECT_GT(range.from, previous);
      previous = range.from + range.count - 1;
      for (std::int64_t i = 0; i < range.count; ++i)
        out.at(static_cast<std::size_t>(range.to + i)) = label(source, range.from + i);
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
      for_each_range(tensor::whole(shape), box, [&](const ElementRange& range) {
        EXPECT_EQ(range.from, next);
        next += range.count;
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
