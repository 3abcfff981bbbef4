// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numeric>
#include <random>

#include <gmock/gmock.h>

#include "tests/comm/connected_threads.hpp"

namespace distdl::comm {
namespace {
using Floats = std::vector<float>;

void add(std::span<float> accumulate, std::span<const float> addend) {
  for (std::size_t i = 0; i < accumulate.size(); ++i) accumulate[i] += addend[i];
}

/// Every leaf's vector, the same on all ranks; magnitudes differ so that the order of additions shows in the bits.
std::vector<Floats> make_leaves(int leaves, std::size_t length, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<Floats> values(leaves, Floats(length));
  for (auto& leaf : values)
    for (float& value : leaf)
      value = (static_cast<float>(random() % 2000001) - 1e6f) * std::ldexp(1.0f, static_cast<int>(random() % 40) - 20);
  return values;
}

/// The contract, literally.
Floats serial_sum(TreeNode node, const std::vector<Floats>& leaves) {
  if (node.level == 0) return leaves[node.index];
  Floats left = serial_sum({node.level - 1, 2 * node.index}, leaves);
  const TreeNode right{node.level - 1, 2 * node.index + 1};
  if (leaves_of(right, static_cast<int>(leaves.size())).count) add(left, serial_sum(right, leaves));
  return left;
}

std::vector<std::uint32_t> bits(std::span<const float> values) {
  std::vector<std::uint32_t> all;
  for (float value : values) all.push_back(std::bit_cast<std::uint32_t>(value));
  return all;
}

/// Leaves cut at random places, given to the ranks in random order; some ranks may get none.
std::vector<LeafRange> random_ranges(int ranks, int leaves, std::mt19937& random) {
  std::vector<int> cuts{0, leaves};
  for (int i = 1; i < ranks; ++i) cuts.push_back(static_cast<int>(random() % (leaves + 1)));
  std::sort(cuts.begin(), cuts.end());
  std::vector<LeafRange> ranges;
  for (int i = 0; i < ranks; ++i) ranges.push_back({cuts[i], cuts[i + 1] - cuts[i]});
  std::shuffle(ranges.begin(), ranges.end(), random);
  return ranges;
}

enum class Place { own, first_partial };

/// Of any length; one in four has no elements.
std::vector<std::size_t> slices_of(std::size_t length, int ranks) {
  std::vector<std::size_t> counts(ranks);
  for (int r = 0; r < ranks; ++r) {
    counts[r] = r + 1 == ranks ? length : r % 4 == 1 ? 0 : length / 3;
    length -= counts[r];
  }
  return counts;
}

/// What this rank brings.
struct Brought {
  Brought(Communicator& comm, const std::vector<LeafRange>& ranges, const std::vector<Floats>& leaves)
      : all{static_cast<int>(leaves.size()), ranges} {
    for (TreeNode node : cover(ranges[comm.rank().value], all.count)) storage.push_back(serial_sum(node, leaves));
    partials.assign(storage.begin(), storage.end());
  }
  Leaves all;
  std::vector<Floats> storage;
  std::vector<ConstVector> partials;
};

void expect_slice(Communicator& comm, Brought brought, const Floats& expected, Place place) {
  const auto counts = slices_of(expected.size(), comm.size());
  const std::size_t first = std::accumulate(counts.begin(), counts.begin() + comm.rank().value, std::size_t{0});
  const std::size_t count = counts[comm.rank().value];
  Floats own(count, -1);
  const bool in_place = place == Place::first_partial && !brought.storage.empty();
  const std::span<float> result = in_place ? std::span(brought.storage[0]).subspan(first, count) : std::span(own);
  const Floats before = in_place ? brought.storage[0] : Floats();
  comm.reduce_scatter(brought.all, brought.partials, result, counts).wait();
  ASSERT_EQ(bits(result), bits(std::span(expected).subspan(first, count))) << count << " of " << expected.size();
  if (!in_place) return;
  const std::span<const float> after(brought.storage[0]), old(before);
  ASSERT_EQ(bits(after.first(first)), bits(old.first(first))) << "of the others' slices";
  ASSERT_EQ(bits(after.subspan(first + count)), bits(old.subspan(first + count))) << "of the others' slices";
}

void expect_tree_sum(Communicator& comm, const std::vector<LeafRange>& ranges, const std::vector<Floats>& leaves,
                     const Floats& expected, Place place) {
  expect_slice(comm, {comm, ranges, leaves}, expected, place);
  Brought brought(comm, ranges, leaves);
  Floats own(expected.size(), -1);
  Floats& result = place == Place::first_partial && !brought.storage.empty() ? brought.storage[0] : own;
  comm.all_reduce(brought.all, brought.partials, result).wait();
  ASSERT_EQ(bits(result), bits(expected)) << leaves.size() << " leaves, " << expected.size() << " floats";
}

/// Number of ranks, and how many of them share memory (0: all).
class TreeAllReduce : public ::testing::TestWithParam<std::pair<int, int>> {
 protected:
  void on_ranks(const std::function<void(Communicator&)>& body) const {
    Options options = test_options();
    options.shared_memory_ranks = GetParam().second;
    on_threads(GetParam().first, body, options);
  }
};
INSTANTIATE_TEST_SUITE_P(Ranks, TreeAllReduce,
                         ::testing::Values(std::pair(1, 0), std::pair(2, 0), std::pair(3, 0), std::pair(4, 0),
                                           std::pair(6, 0), std::pair(8, 0), std::pair(2, 1), std::pair(3, 1),
                                           std::pair(6, 1), std::pair(4, 2), std::pair(6, 4), std::pair(8, 3)));

TEST_P(TreeAllReduce, GivesTheSerialBitsForEveryAssignment) {
  on_ranks([](Communicator& comm) {
    std::mt19937 random(7);  // the same choices on all ranks
    for (int trial = 0; trial < 40; ++trial) {
      const int leaves = 1 + static_cast<int>(random() % 17);
      const std::size_t length = std::array{0, 1, 17, 2048, 2049, 5003}[trial % 6];
      const auto values = make_leaves(leaves, length, random());
      const auto expected = serial_sum({root_level(leaves), 0}, values);
      const auto ranges = random_ranges(comm.size(), leaves, random);
      expect_tree_sum(comm, ranges, values, expected, trial % 2 ? Place::own : Place::first_partial);
    }
  });
}

TEST_P(TreeAllReduce, GivesTheSerialBitsOverManySegments) {
  const std::size_t length = 1'300'021;  // a prime, several segments for each of up to 8 ranks
  const auto values = make_leaves(5, length, 11);
  const auto expected = serial_sum({root_level(5), 0}, values);
  on_ranks([&](Communicator& comm) {
    std::mt19937 random(13);
    for (auto place : {Place::own, Place::first_partial})
      expect_tree_sum(comm, random_ranges(comm.size(), 5, random), values, expected, place);
  });
}

TEST_P(TreeAllReduce, AllLeavesOnTheLastRank) {
  const auto values = make_leaves(6, 10007, 3);
  const auto expected = serial_sum({root_level(6), 0}, values);
  on_ranks([&](Communicator& comm) {
    std::vector<LeafRange> ranges(comm.size());
    ranges.back() = {0, 6};
    expect_tree_sum(comm, ranges, values, expected, Place::own);
  });
}

TEST(TreeAllReduce, RefusesRangesThatDoNotFit) {
  on_threads(1, [](Communicator& comm) {
    Floats partial(4), result(4), longer(5);
    const ConstVector partials[] = {partial};
    const auto sum = [&](int leaves, std::vector<LeafRange> ranges, std::span<const ConstVector> parts, Floats& into) {
      comm.all_reduce(Leaves{leaves, std::move(ranges)}, parts, into).wait();
    };
    EXPECT_THROW(sum(2, {{0, 1}}, partials, result), ConfigError);
    EXPECT_THROW(sum(1, {{0, 1}}, partials, longer), ConfigError);
    EXPECT_THROW(sum(1, {{0, 1}}, {}, result), ConfigError);
    EXPECT_THROW(sum(1, {}, partials, result), ConfigError);
    const auto scatter = [&](std::span<const ConstVector> parts, std::span<const std::size_t> counts) {
      comm.reduce_scatter(Leaves{1, {{0, 1}}}, parts, result, counts).wait();
    };
    EXPECT_NO_THROW(scatter(partials, std::array<std::size_t, 1>{4}));
    EXPECT_THROW(scatter(partials, {}), ConfigError);
    EXPECT_THROW(scatter(partials, std::array<std::size_t, 1>{5}), ConfigError);
    EXPECT_THROW(scatter({}, std::array<std::size_t, 1>{4}), ConfigError);
  });
}

}  // namespace
}  // namespace distdl::comm
