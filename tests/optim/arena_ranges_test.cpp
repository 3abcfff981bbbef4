// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <distdl/optim/arena_ranges.hpp>
#include <distdl/optim/shards.hpp>

namespace distdl::optim {
namespace {
using ::testing::ElementsAre;
using ::testing::FieldsAre;

tensor::ArenaLayout layout() {
  tensor::ArenaLayout layout;
  layout.add("conv", {2, 3});  // each tensor takes 16 places
  layout.add("fc", {3, 4});
  layout.add("bias", {3});
  layout.add("scale", {});
  layout.add("mean", {5}, tensor::Role::statistic);
  layout.add("variance", {5}, tensor::Role::statistic);
  layout.add("last", {7});
  return layout;
}

auto range(std::size_t offset, std::size_t count, bool decays, bool adapts) {
  return FieldsAre(offset, count, FieldsAre(decays, adapts));
}

TEST(ArenaRanges, NeighboursOfOneRoleAreOne) {
  EXPECT_THAT(ranges_of(layout(), tensor::Role::parameter),
              ElementsAre(range(0, 49, true, false), range(96, 7, true, false)));
  EXPECT_THAT(ranges_of(layout(), tensor::Role::statistic), ElementsAre(range(64, 21, true, false)));
}

TEST(ArenaRanges, NeighboursThatDecayAlikeAreOne) {
  EXPECT_THAT(ranges_by_dimensions(layout(), {}, false),
              ElementsAre(range(0, 28, true, false), range(32, 17, false, false), range(96, 7, false, false)));
  EXPECT_THAT(ranges_by_dimensions(layout(), {.decay_one_dimensional = true}, false),
              ElementsAre(range(0, 49, true, false), range(96, 7, true, false)));
}

TEST(ArenaRanges, EachTensorThatAdaptsIsOne) {
  EXPECT_THAT(ranges_by_dimensions(layout(), {}, true),
              ElementsAre(range(0, 6, true, true), range(16, 12, true, true), range(32, 17, false, false),
                          range(96, 7, false, false)));
  EXPECT_THAT(ranges_by_dimensions(layout(), {.decay_one_dimensional = true}, true),
              ElementsAre(range(0, 6, true, true), range(16, 12, true, true), range(32, 17, true, false),
                          range(96, 7, true, false)));
}

TEST(ArenaRanges, PartsOfATensorAdaptTogether) {
  tensor::ArenaLayout divided;
  for (int i = 0; i < 4; ++i)
    divided.add(std::to_string(i), {2, 3}, tensor::Role::parameter,
                tensor::PartOf{i < 2 ? "a" : "b", {4, 3}, {{{2 * (i % 2), 0}, {2, 3}}}});
  EXPECT_THAT(ranges_by_dimensions(divided, {}, true),
              ElementsAre(range(0, 22, true, true), range(32, 22, true, true)));
  for (const auto& shard : shards_of({.name = "lamb"}, divided, 4, {}).of)
    EXPECT_TRUE(shard.front().first % 32 == 0 && shard.front().end % 32 == 0) << shard.front().first;
}
}  // namespace
}  // namespace distdl::optim
