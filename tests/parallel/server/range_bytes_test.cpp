// SPDX-License-Identifier: Apache-2.0
// Messages, parameters and gradients as bytes.
#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <distdl/base/errors.hpp>
#include <distdl/base/philox.hpp>
#include <distdl/comm/sum_tree.hpp>
#include <distdl/parallel/server/packet.hpp>
#include <distdl/parallel/server/range_bytes.hpp>
#include <distdl/parallel/server/range_code.hpp>

namespace distdl::parallel::server {
namespace {
using ::testing::ElementsAre;
using ::testing::Pair;

TEST(Packet, IsTheSameAfterItsWay) {
  MicrobatchSet committed(Microbatch(3));
  committed.add(Microbatch(7));
  const Inventory inventory{
      Leadership(2), 4, {{1, Term(5), true, Node(6), false, committed}, {2, Term(1), false, {}, true, {}}}};
  const auto back = decode(encode({9, Node(1), Node(2), inventory, {}}));
  EXPECT_EQ(back.round, 9);
  EXPECT_EQ(back.from, Node(1));
  EXPECT_EQ(back.to, Node(2));
  const auto& ranges = std::get<Inventory>(back.message).ranges;
  ASSERT_EQ(ranges.size(), 2u);
  EXPECT_EQ(ranges[0].committed, committed);
  EXPECT_EQ(ranges[0].partner, Node(6));
  EXPECT_EQ(ranges[1].partner, std::nullopt);
  Tail tail{};
  tail[1] = 2.5F;
  const auto push =
      decode(encode({0, Node(0), Node(1), Push{3, {Leadership(1), 2}, Microbatch(4), Version(5), 6}, tail}));
  EXPECT_EQ(push.tail, tail);
  EXPECT_EQ(std::get<Push>(push.message).version, Version(5));
  const auto pulled = decode(encode({0, Node(0), Node(1), Pulled{}, {}, 0, 4096}));
  EXPECT_EQ(pulled.place, 4096u);
}

TEST(Packet, OfADirectoryOfAllServersFitsIntoAHeader) {
  const Lease lease{{Leadership(1), 1}, Microbatch(1), {Leadership(1), 1, std::vector<Node>(128)}};
  EXPECT_LE(encode({0, Node(1), Node(2), lease, {}}).size(), 1024u);
}

TEST(Packet, OtherBytesAreRefused) {
  const auto bytes = encode({0, Node(1), Node(2), Pushed{1, Microbatch(2)}, {}});
  EXPECT_THROW(decode(bytes.substr(0, bytes.size() - 1)), CommError);
  EXPECT_THROW(decode(bytes + "x"), CommError);
  EXPECT_THROW(decode(std::string(1, '\x7f') + bytes.substr(1)), CommError);
  auto ask = encode({0, Node(1), Node(2), Ask{}, {}});
  ask.back() = '\x02';  // a bool
  EXPECT_THROW(decode(ask), CommError);
  for (const std::int64_t below : {std::int64_t{-1}, std::numeric_limits<std::int64_t>::max()}) {
    const Inventory inventory{Leadership(1), 1, {{0, Term(1), true, {}, true, MicrobatchSet(Microbatch(below))}}};
    EXPECT_THROW(decode(encode({0, Node(1), Node(2), inventory, {}})), CommError);
  }
}

/// Values of very different size, so that another order of additions gives other bits.
float value_of(std::int64_t microbatch, std::size_t i) {
  const auto bits = Philox::block(7, static_cast<std::uint64_t>(microbatch), i);
  return (Philox::uniform(bits[0]) - 0.5F) * std::exp2(static_cast<float>(bits[1] % 24));
}

/// The tree, spelled out.
float tree_sum(std::int64_t first, std::int64_t count, std::size_t i) {
  if (count == 1) return value_of(first, i);
  std::int64_t left = 1;
  while (left * 2 < count) left *= 2;
  return tree_sum(first, left, i) + tree_sum(first + left, count - left, i);
}

TEST(RangeBytes, AStepIsSummedAlongTheTreeInWhateverOrderItComes) {
  constexpr std::size_t kCount = 5;
  for (const int microbatches : {1, 2, 3, 6, 7, 12})
    for (const int workers : {1, 2, 3, 5}) {
      if (workers > microbatches) continue;
      Options options;
      options.microbatches = microbatches;
      const StepParts parts = parts_of(options, workers);
      const std::int64_t count = std::ssize(parts.nodes);
      std::vector<float> range(kCount);
      const VersionMemory memory;
      const RangeCode code({0, kCount});
      RangeBytes bytes(range, Mode::synchronous, parts, code, memory);
      for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t next = count + (11 * i + 2) % count;  // of the second step; 11 divides none
        const auto leaves = comm::leaves_of(parts.node_of(Microbatch(next)), microbatches);
        RangeGradient gradient{std::vector<float>(kCount), {}, {}};
        for (std::size_t j = 0; j < kCount; ++j) gradient.values[j] = tree_sum(leaves.first, leaves.count, j);
        gradient.tail[0] = static_cast<float>(leaves.count);
        bytes.store(Microbatch(next), std::move(gradient));
      }
      const auto sum = bytes.take({0, Version(2), {}, 0});
      for (std::size_t j = 0; j < kCount; ++j) EXPECT_EQ(sum.values[j], tree_sum(0, microbatches, j)) << microbatches;
      EXPECT_EQ(sum.tail[0], static_cast<float>(microbatches));
    }
}

TEST(StepParts, AreFewSubtreesOfEachShareTheLargeOnesFirst) {
  const auto microbatches_of = [](int microbatches, int workers, Mode mode = Mode::synchronous) {
    Options options;
    options.microbatches = microbatches;
    options.servers.mode = mode;
    const StepParts parts = parts_of(options, workers);
    std::vector<std::pair<int, int>> found;
    for (const comm::TreeNode node : parts.nodes) {
      const auto leaves = comm::leaves_of(node, microbatches);
      found.emplace_back(leaves.first, leaves.count);
    }
    return found;
  };
  EXPECT_THAT(microbatches_of(12, 2), ElementsAre(Pair(0, 4), Pair(8, 4), Pair(4, 2), Pair(6, 2)));
  EXPECT_THAT(microbatches_of(16, 2), ElementsAre(Pair(0, 4), Pair(4, 4), Pair(8, 4), Pair(12, 4)));
  EXPECT_THAT(microbatches_of(7, 1), ElementsAre(Pair(0, 4), Pair(4, 3))) << "of one worker, too";
  EXPECT_THAT(microbatches_of(5, 3), ElementsAre(Pair(0, 1), Pair(1, 1), Pair(2, 1), Pair(3, 1), Pair(4, 1)));
  EXPECT_THAT(microbatches_of(4, 2, Mode::asynchronous), ElementsAre(Pair(0, 1), Pair(1, 1), Pair(2, 1), Pair(3, 1)));
}

TEST(StepParts, AWorkerGoesFromItsPartToTheOneThatIsLeft) {
  Options options;
  options.microbatches = 12;
  const StepParts parts = parts_of(options, 2);
  std::vector<int> order{0};
  while (order.back() < 12) order.push_back(next_microbatch(parts, 2, order.back()));
  EXPECT_THAT(order, ElementsAre(0, 1, 2, 3, 4, 5, 12));
  EXPECT_EQ(next_microbatch(parts, 2, 7), 12 + 8);
  EXPECT_EQ(most_partial_sums(parts), 2);
  EXPECT_EQ(most_microbatches(parts), 4);
}

TEST(RangeBytes, AVersionThatWasReadStaysAsItWas) {
  std::vector<float> range{1, 2};
  const StepParts parts;
  const VersionMemory memory(1, 2);
  const RangeCode code({0, 2});
  RangeBytes bytes(range, Mode::asynchronous, parts, code, memory);
  const auto first = bytes.read(Version(0));
  bytes.store(Microbatch(0), {{5, 5}, {}, {}});
  EXPECT_EQ(bytes.take({0, Version(1), {Microbatch(0)}, 0}).values, (std::vector<float>{5, 5}));
  range[0] = 9;
  EXPECT_EQ(bytes.read(Version(0)), first);
  EXPECT_THAT(first->as<float>(), ElementsAre(1, 2));
  EXPECT_THAT(bytes.read(Version(1))->as<float>(), ElementsAre(9, 2)) << "beyond the places";
  bytes.forget(Version(0));
  EXPECT_EQ(bytes.find(Version(0)), nullptr);
  EXPECT_THROW(bytes.read(Version(0)), InternalError);
}

TEST(VersionMemory, UsesASlotAgainWhenNobodyHasItsVersion) {
  const VersionMemory memory(2, 3);
  auto first = memory.take(12);
  const auto second = memory.take(6), third = memory.take(12);
  const auto place = [&](const Values& of) { return memory.place_of(of->as<std::byte>().data()); };
  EXPECT_EQ(place(first), 0u);
  EXPECT_GT(place(second), 0u);
  EXPECT_EQ(place(third), std::nullopt) << "all places are taken";
  EXPECT_EQ(third->bytes(), 12u);
  first = nullptr;
  EXPECT_EQ(place(memory.take(8000)), std::nullopt) << "no place has room for it";
  EXPECT_EQ(place(memory.take(12)), 0u);
}

tensor::ArenaLayout layout_of_code() {
  tensor::ArenaLayout layout;
  layout.add("bias", {5});  // a gap follows
  layout.add("weight", {3, 1000});
  layout.add("mean", {1500}, tensor::Role::statistic);
  return layout;
}

TEST(RangeCode, LosesNothingWithItsResidual) {
  const auto layout = layout_of_code();
  for (const auto compression : {Compression::bf16, Compression::fp16, Compression::int8, Compression::topk})
    for (const optim::Elements range : {optim::Elements{0, layout.size()}, optim::Elements{2, 2000}}) {
      const RangeCode code({.compression = {compression}}, layout, range);
      std::vector<float> values(range.count()), left(values.size(), 0.25F), decoded(values.size(), 7);
      const auto is_gap = [&](std::size_t i) {
        return std::ranges::none_of(layout.tensors(), [&](const tensor::TensorView& view) {
          return range.first + i >= view.offset && range.first + i < view.offset + view.count;
        });
      };
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = is_gap(i) ? 0 : static_cast<float>(i % 91) - 40;
      std::vector<std::byte> bytes(code.bytes());
      EXPECT_LT(bytes.size(), values.size() * sizeof(float));
      code.encode(values, left, bytes.data());
      code.decode(bytes, decoded);
      for (std::size_t i = 0; i < values.size(); ++i) {
        const float expected = is_gap(i) ? 0.25F : values[i] + 0.25F;
        EXPECT_EQ(decoded[i] + left[i], expected) << i;
      }
      EXPECT_EQ(decoded[values.size() > 3000 ? 5 : 3], 0) << "a gap";
      const std::size_t bias = 2;  // of the first tensor, short
      EXPECT_EQ(decoded[bias], values[bias] + 0.25F);
      EXPECT_EQ(left[bias], 0);
      code.encode(values, bytes.data());
      code.decode(bytes, decoded);
      EXPECT_EQ(decoded[bias], values[bias]);
    }
}

TEST(RangeCode, ParametersHaveSixteenBitsAtLeast) {
  const auto layout = layout_of_code();
  const std::vector<optim::Elements> ranges{{0, layout.size()}};
  const auto bytes = [&](Compression compression) {
    const auto codes = codes_of({.compression = {compression}}, layout, ranges);
    return std::pair(codes.gradients[0].bytes(), codes.parameters[0].bytes());
  };
  const auto [plain, plain_parameters] = bytes(Compression::none);
  EXPECT_EQ(plain, layout.size() * sizeof(float));
  EXPECT_EQ(plain_parameters, plain);
  const auto halves = bytes(Compression::bf16).first;
  for (const auto compression : {Compression::int8, Compression::topk, Compression::onebit}) {
    EXPECT_LT(bytes(compression).first, halves);
    EXPECT_EQ(bytes(compression).second, halves);
  }
}
}  // namespace
}  // namespace distdl::parallel::server
