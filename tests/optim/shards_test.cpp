// SPDX-License-Identifier: Apache-2.0
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <distdl/base/errors.hpp>
#include <distdl/optim/shards.hpp>

namespace distdl::optim {
namespace {
using ::testing::ElementsAre;
using ::testing::FieldsAre;

/// Of each rank, where the arenas are one part.
std::vector<Elements> slices_of(const Options& options, const tensor::ArenaLayout& layout, int ranks) {
  std::vector<Elements> slices;
  for (const auto& own : shards_of(options, layout, ranks, {}).of) {
    EXPECT_EQ(own.size(), 1u);
    slices.push_back(own.front());
  }
  return slices;
}

std::vector<std::size_t> counts_of(const std::vector<Elements>& shards) {
  std::vector<std::size_t> counts;
  for (const Elements& shard : shards) counts.push_back(shard.count());
  return counts;
}

TEST(Shards, AreEqualWhereTensorsCanBeCut) {
  tensor::ArenaLayout layout;
  layout.add("wide", {64, 16});
  layout.add("bias", {1024});
  EXPECT_THAT(slices_of({.name = "sgd"}, layout, 1), ElementsAre(FieldsAre(0, 2048)));
  EXPECT_THAT(counts_of(slices_of({.name = "adamw"}, layout, 4)), ElementsAre(512, 512, 512, 512));
  EXPECT_THAT(counts_of(slices_of({.name = "sgd"}, layout, 3)), ElementsAre(688, 672, 688)) << "lines of 16";
}

TEST(Shards, MayHaveWeights) {
  tensor::ArenaLayout layout;
  layout.add("wide", {64, 16});
  layout.add("bias", {1024});
  const auto counts = [&](const char* name, const std::vector<int>& weights) {
    const auto shards = shards_of({.name = name}, layout, static_cast<int>(weights.size()), {}, weights);
    std::vector<std::size_t> all;
    for (const auto& own : shards.of) all.push_back(own.front().count());
    return all;
  };
  EXPECT_THAT(counts("sgd", {1, 2, 1}), ElementsAre(512, 1024, 512));
  EXPECT_THAT(counts("sgd", {3, 3, 3}), ElementsAre(688, 672, 688)) << "as without";
  EXPECT_THAT(counts("lars", {3, 1}), ElementsAre(2048, 0)) << "whole tensors, the nearest border";
}

TEST(Shards, HaveWholeRows) {
  tensor::ArenaLayout layout;
  layout.add("a", {5, 48});
  layout.add("odd", {40, 5, 2});  // 8 rows of 10 end with a line
  EXPECT_THAT(slices_of({.name = "sgd"}, layout, 4),
              ElementsAre(FieldsAre(0, 144), FieldsAre(144, 320), FieldsAre(320, 480), FieldsAre(480, 640)));
}

TEST(Shards, HaveWholeTensorsWhereTheOptimizerAdaptsToThem) {
  tensor::ArenaLayout layout;
  layout.add("large", {100, 16});
  layout.add("small", {10});
  layout.add("last", {20, 16});
  for (const std::string name : {"lamb", "lars"}) {
    EXPECT_THAT(slices_of({.name = name}, layout, 2), ElementsAre(FieldsAre(0, 1600), FieldsAre(1600, 1936)));
    EXPECT_THAT(counts_of(slices_of({.name = name}, layout, 4)), ElementsAre(0, 1600, 0, 336));
  }
}

TEST(Shards, MayBeEmpty) {
  tensor::ArenaLayout layout;
  layout.add("scale", {});
  layout.add("bias", {3});
  EXPECT_THAT(counts_of(slices_of({.name = "sgd"}, layout, 4)), ElementsAre(16, 0, 16, 0));
  EXPECT_THAT(counts_of(slices_of({.name = "sgd"}, tensor::ArenaLayout(), 2)), ElementsAre(0, 0));
  EXPECT_THROW(slices_of({.name = "sdg"}, layout, 2), ConfigError);
}

/// Without an end: every element in one shard, for any numbers of ranks and shapes.
TEST(Shards, CoverTheArenaOnceAndAreNearlyEqual) {
  tensor::ArenaLayout layout;
  for (int i = 0; i < 30; ++i) layout.add(std::to_string(i), {i + 1, 3 * i % 7 + 1, i % 3 + 1});
  for (const std::string name : {"sgd", "lamb"})
    for (int ranks = 1; ranks <= 70; ++ranks) {
      const auto shards = slices_of({.name = name}, layout, ranks);
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

/// Parts as of buckets: rounded borders must not always favor the same rank.
TEST(Shards, ShareEachPartAndAllPartsTogether) {
  tensor::ArenaLayout layout;
  for (int i = 0; i < 40; ++i) layout.add(std::to_string(i), {7, 3, 32});
  std::vector<Elements> parts{{layout.size(), layout.size()}};
  for (std::size_t end = layout.size(); end > 0; end -= 2 * 672) parts.push_back({end - 2 * 672, end});
  for (int ranks = 1; ranks <= 9; ++ranks) {
    const Shards shards = shards_of({.name = "adamw"}, layout, ranks, parts);
    ASSERT_EQ(shards.parts.size(), parts.size());
    for (std::size_t part = 0; part < parts.size(); ++part) {
      std::size_t next = parts[part].first;
      for (const auto& own : shards.of) {
        EXPECT_EQ(own[part].first, next);
        EXPECT_EQ(own[part].first % 96, 0u) << "within a row";
        next = own[part].end;
      }
      EXPECT_EQ(next, parts[part].end);
      const auto counts = shards.counts(part);
      EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), std::size_t{0}), parts[part].count());
    }
    for (const auto& own : shards.of) {
      const auto all = static_cast<double>(place_in(own, own.size()));
      EXPECT_NEAR(all, static_cast<double>(layout.size()) / ranks, 2 * 96) << ranks;
    }
  }
}

TEST(Shards, AreOnePartWhereTheOptimizerAdapts) {
  tensor::ArenaLayout layout;
  layout.add("a", {4, 16});
  layout.add("b", {4, 16});
  EXPECT_THAT(shards_of({.name = "lamb"}, layout, 2, {{64, 128}, {0, 64}}).parts, ElementsAre(FieldsAre(0, 128)));
}

TEST(Shards, LieOneSliceAfterTheOther) {
  const std::vector<Elements> shard{{100, 120}, {80, 80}, {10, 15}};
  EXPECT_EQ(place_in(shard, 0), 0u);
  EXPECT_EQ(place_in(shard, 1), 20u);
  EXPECT_EQ(place_in(shard, 2), 20u);
  EXPECT_EQ(place_in(shard, 3), 25u);
}
}  // namespace
}  // namespace distdl::optim
