// SPDX-License-Identifier: Apache-2.0
// The bytes of parameters and gradients, and the roles of ranks that are threads.
#include <atomic>
#include <cmath>
#include <limits>
#include <mutex>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <distdl/base/errors.hpp>
#include <distdl/base/philox.hpp>
#include <distdl/comm/sum_tree.hpp>
#include <distdl/parallel/server/packet.hpp>
#include <distdl/parallel/server/range_bytes.hpp>
#include <distdl/parallel/server/runtime.hpp>
#include <distdl/world/thread_world.hpp>

namespace distdl::parallel::server {
namespace {
using ::testing::ElementsAre;
using ::testing::HasSubstr;
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
  const auto pulled = decode(encode({0, Node(0), Node(1), Pulled{}, {}, 4096}));
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
      RangeBytes bytes(range, Mode::synchronous, parts, memory);
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
    options.server_mode = mode;
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
  RangeBytes bytes(range, Mode::asynchronous, parts, memory);
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
  const std::vector<float> values{1, 2, 3}, many(2000);
  auto first = memory.copy(values);
  const auto second = memory.copy(values), third = memory.copy(values);
  const auto place = [&](const Values& of) { return memory.place_of(of->as<float>().data()); };
  EXPECT_EQ(place(first), 0u);
  EXPECT_GT(place(second), 0u);
  EXPECT_EQ(place(third), std::nullopt) << "all places are taken";
  EXPECT_THAT(third->as<float>(), ElementsAre(1, 2, 3));
  first = nullptr;
  EXPECT_EQ(place(memory.copy(many)), std::nullopt) << "no place has room for it";
  EXPECT_EQ(place(memory.copy(values)), 0u);
}

/// A run on threads, whose gradients are 1 for each parameter, and whose servers add them: a parameter tells how many
/// updates it has.
struct Counted {
  std::mutex mutex;
  std::map<std::int64_t, int> computed;                     ///< how often each microbatch was computed
  std::vector<std::int64_t> staleness;                      ///< of all ranges
  std::int64_t steps = 0;                                   ///< of all rounds
  std::int64_t most_missing = 0;                            ///< updates of earlier steps that parameters lacked
  std::int64_t most_ahead = 0;                              ///< updates that they had beyond those
  std::map<std::pair<int, Rank>, std::vector<float>> kept;  ///< of a range, by a holder: a parameter of each version
};

struct Plan {
  Mode mode = Mode::synchronous;
  std::int64_t staleness = 0;
  int servers = 1;
  Placement placement = Placement::colocated;
  int slow_rank = -1;  ///< computes only when the others can do nothing more, or have done much
  bool ends_early = false;
  bool has_partners = false;
  Pulls pulls = Pulls::automatic;
};

void count(Counted& counted, int ranks, const Plan& plan) {
  constexpr std::size_t kParameters = 1000;
  constexpr int kMicrobatches = 4;
  constexpr std::int64_t kSteps = 8;
  constexpr int kRounds = 2;
  world::run_threads(ranks, [&](world::World& world) {
    auto communicator = comm::Communicator::connect(world, {});
    Options options;
    options.servers = plan.servers;
    options.server_placement = plan.placement;
    const auto cluster = cluster_of(options, ranks);
    const auto servers = cluster.servers.size();
    Runtime::Setup setup{cluster, {}, kParameters, false, 1, plan.pulls};
    for (std::size_t i = 0; i < servers; ++i)
      setup.ranges.push_back({kParameters * i / servers, kParameters * (i + 1) / servers});
    const int own = cluster.server_of(world.rank());
    const auto ranges = setup.ranges;
    const auto range = own < 0 ? optim::Elements{} : ranges[static_cast<std::size_t>(own)];
    std::vector<float> arena(kParameters), copy(kParameters);
    setup.keep = [&](const Keep& keep) {
      const std::lock_guard lock(counted.mutex);
      const auto first = ranges[static_cast<std::size_t>(keep.range)].first;
      counted.kept[{keep.range, world.rank()}].push_back((keep.range == own ? arena : copy)[first]);
    };
    Runtime runtime(*communicator, std::move(setup), [&](const Apply& apply, const RangeGradient& gradient) {
      auto& values = apply.range == own ? arena : copy;
      const auto& of = ranges[static_cast<std::size_t>(apply.range)];
      for (std::size_t i = 0; i < of.count(); ++i) values[of.first + i] += gradient.values[i];
    });
    options.microbatches = kMicrobatches;
    options.server_mode = plan.mode;
    const StepParts parts = parts_of(options, static_cast<int>(cluster.workers.size()));
    for (int round = 0; round < kRounds; ++round) {
      const Rules rules{.mode = plan.mode,
                        .staleness = plan.staleness,
                        .microbatches = std::ssize(parts.nodes),
                        .steps = kSteps,
                        .ranges = static_cast<int>(servers),
                        .has_partners = plan.has_partners};
      std::vector<float> begin = arena;
      runtime.begin(rules, parts, arena.data(), copy.data());
      if (plan.ends_early && world.rank() == Rank(0)) runtime.end_soon();
      while (const auto work = runtime.next([] {})) {
        // The slow rank lets the others go on as far as they can, for a while.
        for (int i = 0; world.rank().value == plan.slow_rank && i < 2000; ++i) std::this_thread::yield();
        const std::int64_t step = work->step;
        const auto leaves = comm::leaves_of(work->part, kMicrobatches);
        const auto before = static_cast<std::int64_t>(round) * kSteps * kMicrobatches;
        for (const auto& [first, end] : ranges)
          EXPECT_TRUE(std::all_of(work->parameters + first, work->parameters + end, [&](float one) {
            return one == work->parameters[first];
          })) << "one version of a range";
        const float fewest = *std::min_element(work->parameters, work->parameters + kParameters);
        const auto least = static_cast<std::int64_t>(fewest) - before;
        std::fill_n(work->gradients, kParameters, static_cast<float>(leaves.count));
        {
          const std::lock_guard lock(counted.mutex);
          for (int i = 0; i < leaves.count; ++i) ++counted.computed[before + step * kMicrobatches + leaves.first + i];
          counted.most_missing = std::max(counted.most_missing, step * kMicrobatches - least);
          counted.most_ahead = std::max(counted.most_ahead, least - step * kMicrobatches);
        }
        runtime.computed();
      }
      const auto steps = runtime.end();
      const std::lock_guard lock(counted.mutex);
      if (world.rank().value == 0) counted.steps += steps;
      for (std::size_t i = range.first; i < range.end; ++i)
        EXPECT_EQ(arena[i] - begin[i], static_cast<float>(steps * kMicrobatches)) << "each microbatch once";
      for (std::size_t i = 0; i < runtime.staleness().size(); ++i) {
        counted.staleness.resize(std::max(counted.staleness.size(), i + 1));
        counted.staleness[i] += runtime.staleness()[i];
      }
    }
    communicator->barrier().wait();
  });
}

TEST(Runtime, SynchronousGradientsHaveTheParametersOfTheirStep) {
  for (const int ranks : {1, 2, 4})
    for (const int servers : {1, 2, 4}) {
      if (servers > ranks) continue;
      Counted counted;
      count(counted, ranks, {.servers = servers});
      EXPECT_EQ(counted.steps, 16);
      EXPECT_EQ(counted.computed.size(), 64u);
      EXPECT_EQ(counted.staleness, (std::vector<std::int64_t>{16L * servers}));
      EXPECT_EQ(counted.most_missing, 0);
      EXPECT_EQ(counted.most_ahead, 0);
    }
}

/// Both holders keep each version, after its update.
TEST(Runtime, APartnerMakesTheSameVersionsAsItsPrimary) {
  std::vector<float> versions;  // each of 4 microbatches
  for (int step = 1; step <= 16; ++step) versions.push_back(static_cast<float>(4 * step));
  for (const int servers : {1, 3}) {
    Counted counted;
    count(counted, 3, {.servers = servers, .has_partners = true});
    EXPECT_EQ(counted.steps, 16);
    EXPECT_EQ(counted.kept.size(), servers == 1 ? 1u : 6u);
    for (const auto& [holder, kept] : counted.kept)
      EXPECT_EQ(kept, versions) << "range " << holder.first << " on rank " << holder.second.value;
    for (int range = 0; range < servers && servers > 1; ++range)
      EXPECT_TRUE(counted.kept.contains({range, Rank((range + 1) % servers)}));
    EXPECT_EQ(counted.staleness, (std::vector<std::int64_t>{16L * servers})) << "a partner counts nothing";
  }
}

TEST(Runtime, ServersMayHaveRanksOfTheirOwn) {
  Counted counted;
  count(counted, 3, {.servers = 2, .placement = Placement::own});
  EXPECT_EQ(counted.computed.size(), 64u);
}

TEST(Runtime, TheBoundIsKeptWhenAWorkerIsSlow) {
  for (const std::int64_t staleness : {0, 1, 4}) {
    Counted counted;
    count(counted, 3, {.mode = Mode::bounded, .staleness = staleness, .servers = 3, .slow_rank = 1});
    EXPECT_EQ(counted.computed.size(), 64u);
    // All updates of all steps but the last `staleness` before its own are there.
    EXPECT_LE(counted.most_missing, staleness * 4);
    EXPECT_LE(std::ssize(counted.staleness), (2 * staleness + 1) * 4);
  }
}

TEST(Runtime, AsynchronousGradientsAreAppliedOnceEach) {
  Counted counted;
  count(counted, 4, {.mode = Mode::asynchronous, .servers = 2, .slow_rank = 2});
  EXPECT_EQ(counted.computed.size(), 64u);
  std::int64_t updates = 0;
  for (const auto each : counted.staleness) updates += each;
  EXPECT_EQ(updates, 2 * 64) << "of two ranges";
}

TEST(Runtime, ParametersAreTheSameWhicheverWayTheyCome) {
  for (const Pulls pulls : {Pulls::messages, Pulls::one_sided}) {
    Counted counted;
    count(counted, 3, {.servers = 2, .slow_rank = 1, .pulls = pulls});
    EXPECT_EQ(counted.most_missing, 0);
    EXPECT_EQ(counted.most_ahead, 0);
    count(counted, 3, {.mode = Mode::asynchronous, .servers = 3, .slow_rank = 1, .pulls = pulls});
    EXPECT_EQ(counted.computed.size(), 64u);
  }
}

TEST(Runtime, ARoundCanEndEarly) {
  for (const Mode mode : {Mode::synchronous, Mode::asynchronous}) {
    Counted counted;
    count(counted, 2, {.mode = mode, .servers = 2, .slow_rank = 1, .ends_early = true});
    EXPECT_GE(counted.steps, 2);
    EXPECT_LT(counted.steps, 16);
  }
}

TEST(Runtime, ARankThatEndsNamesTheCauseToAll) {
  std::atomic<int> told = 0;
  try {
    world::run_threads(2, [&](world::World& world) {
      auto communicator = comm::Communicator::connect(world, {});
      std::vector<float> arena(4);
      Runtime runtime(*communicator, {cluster_of({}, 2), {{0, 2}, {2, 4}}, 4, false}, [](const Apply&, const auto&) {});
      runtime.begin(
          {.mode = Mode::asynchronous, .microbatches = 2, .steps = 1000000, .ranges = 2, .has_partners = false},
          {2, {{0, 0}, {0, 1}}}, arena.data());
      try {
        while (const auto work = runtime.next([] {})) {
          if (world.rank() == Rank(1)) throw StorageError("the disk is full");
          runtime.computed();
        }
      } catch (const comm::PeerLost& lost) {
        if (std::string(lost.what()).find("the disk is full") != std::string::npos) ++told;
        runtime.abort(lost.what(), lost.exit_code());
        throw;
      } catch (const StorageError& error) {
        runtime.abort(error.what(), error.exit_code());
        throw;
      }
    });
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::storage) << error.what();
  }
  EXPECT_EQ(told, 1);
}

/// Rank 1 sends this message instead of what it has to. Returns what rank 0, which has all roles, says of it.
std::string refusal(const Packet& packet, std::size_t values) {
  std::atomic<bool> has_begun = false, has_ended = false;
  std::string text;
  world::run_threads(2, [&](world::World& world) {
    auto communicator = comm::Communicator::connect(world, {});
    const std::vector<float> payload(values);
    if (world.rank() == Rank(1)) {
      auto own = communicator->duplicate();
      own->barrier().wait();
      while (!has_begun) std::this_thread::yield();
      own->send_message(Rank(0), 0x5053, encode(packet), std::as_bytes(std::span(payload))).wait();
      while (!has_ended) std::this_thread::yield();
      own->abort("the test has ended");
      return;
    }
    std::vector<float> arena(4);
    Options options;
    options.servers = 1;
    Runtime runtime(*communicator, {cluster_of(options, 2), {{0, 4}}, 4, false, 1, Pulls::messages},
                    [](const Apply&, const auto&) {});
    runtime.begin({.mode = Mode::asynchronous, .microbatches = 2, .steps = 4, .has_partners = false},
                  {2, {{0, 0}, {0, 1}}}, arena.data());
    has_begun = true;
    try {
      while (runtime.next([] {})) {
      }
    } catch (const CommError& error) {
      text = error.what();
      runtime.abort(text, error.exit_code());
    }
    has_ended = true;
  });
  return text;
}

TEST(Runtime, AMessageThatNoRankSendsEndsTheRound) {
  const Node server(1), worker(0), other_worker(3), other_server(4);
  const Push push{0, {Leadership(1), 1}, Microbatch(0), Version(0), 0};
  EXPECT_THAT(refusal({1, other_worker, server, push, {}}, 3), HasSubstr("has 3 values, but 4 are expected"));
  EXPECT_THAT(refusal({1, worker, server, push, {}}, 4), HasSubstr("rank 1 sent a message"));
  EXPECT_THAT(refusal({1, other_worker, other_server, push, {}}, 4), HasSubstr("to node 4, which is not possible"));
  EXPECT_THAT(refusal({1, other_worker, worker, Finish{Leadership(1), 1}, {}}, 0), HasSubstr("is no scheduler"));
  EXPECT_THAT(refusal({1, other_server, worker, Pulled{0, {}, 0, Version(0), 0, false}, {}}, 3),
              HasSubstr("came with 3 parameters, but 4 are expected"));
  EXPECT_THAT(refusal({1, other_server, worker, Pulled{0, {}, 0, Version(0), 0, false}, {}, 0}, 0),
              HasSubstr("rank 1 has no memory from which range 0 could be read"));
  EXPECT_THAT(refusal({1, other_worker, Node(2), Ask{{}, {}, static_cast<Phase>(7), false}, {}}, 0),
              HasSubstr("has 7 as its phase"));
}
}  // namespace
}  // namespace distdl::parallel::server
