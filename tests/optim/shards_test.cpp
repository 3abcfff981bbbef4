// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <distdl/base/errors.hpp>
#include <distdl/optim/shards.hpp>

namespace distdl::optim {
namespace {
using ::testing::ElementsAre;
using ::testing::FieldsAre;

std::vector<std::size_t> counts_of(const std::vector<Elements>& shards) {
  std::vector<std::size_t> counts;
  for (const Elements& shard : shards) counts.push_back(shard.count());
  return counts;
}

TEST(Shards, AreEqualWhereTensorsCanBeCut) {
  tensor::ArenaLayout layout;
  layout.add("wide", {64, 16});
  layout.add("bias", {1024});
  EXPECT_THAT(shards_of({.name = "sgd"}, layout, 1), ElementsAre(FieldsAre(0, 2048)));
  EXPECT_THAT(counts_of(shards_of({.name = "adamw"}, layout, 4)), ElementsAre(512, 512, 512, 512));
  EXPECT_THAT(counts_of(shards_of({.name = "sgd"}, layout, 3)), ElementsAre(688, 672, 688)) << "lines of 16";
}

TEST(Shards, HaveWholeRows) {
  tensor::ArenaLayout layout;
  layout.add("a", {5, 48});
  layout.add("odd", {40, 5, 2});  // 8 rows of 10 end with a line
  EXPECT_THAT(shards_of({.name = "sgd"}, layout, 4),
              ElementsAre(FieldsAre(0, 144), FieldsAre(144, 320), FieldsAre(320, 480), FieldsAre(480, 640)));
}

TEST(Shards, HaveWholeTensorsWhereTheOptimizerAdaptsToThem) {
  tensor::ArenaLayout layout;
  layout.add("large", {100, 16});
  layout.add("small", {10});
  layout.add("last", {20, 16});
  for (const std::string name : {"lamb", "lars"}) {
    EXPECT_THAT(shards_of({.name = name}, layout, 2), ElementsAre(FieldsAre(0, 1600), FieldsAre(1600, 1936)));
    EXPECT_THAT(counts_of(shards_of({.name = name}, layout, 4)), ElementsAre(0, 1600, 0, 336));
  }
}

TEST(Shards, MayBeEmpty) {
  tensor::ArenaLayout layout;
  layout.add("scale", {});
  layout.add("bias", {3});
  EXPECT_THAT(counts_of(shards_of({.name = "sgd"}, layout, 4)), ElementsAre(16, 0, 16, 0));
  EXPECT_THAT(counts_of(shards_of({.name = "sgd"}, tensor::ArenaLayout(), 2)), ElementsAre(0, 0));
  EXPECT_THROW(shards_of({.name = "sdg"}, layout, 2), ConfigError);
}

/// Without an end: every element in one shard, for any numbers of ranks and shapes.
TEST(Shards, CoverTheArenaOnceAndAreNearlyEqual) {
  tensor::ArenaLayout layout;
  for (int i = 0; i < 30; ++i) layout.add(std::to_string(i), {i + 1, 3 * i % 7 + 1, i % 3 + 1});
  for (const std::string name : {"sgd", "lamb"})
    for (int ranks = 1; ranks <= 70; ++ranks) {
      const auto shards = shards_of({.name = name}, layout, ranks);
      ASSERT_EQ(shards.size(), static_cast<std::size_t>(ranks));
      std::size_t next = 0;
      for (const Elements& shard : shards) {
        EXPECT_EQ(shard.first, next);
        EXPECT_EQ(shard.first % 16, 0u);
        ASSERT_GE(shard.end, shard.first);
        next = shard.end;
        EXPECT_LE(shard.count(), layout.size() / static_cast<std::size_t>(ranks) + 640) << "the largest tensor";
      }
      EXPECT_EQ(next, layout.size());
    }
}
}  // namespace
}  // namespace distdl::optim
