// SPDX-License-Identifier: Apache-2.0
// The roles of ranks that are threads.
#include <atomic>
#include <mutex>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/pace.hpp"
#include <distdl/base/errors.hpp>
#include <distdl/comm/sum_tree.hpp>
#include <distdl/parallel/server/packet.hpp>
#include <distdl/parallel/server/runtime.hpp>
#include <distdl/world/thread_world.hpp>

namespace distdl::parallel::server {
namespace {
using ::testing::AllOf;
using ::testing::HasSubstr;

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
    options.servers.tasks = plan.servers;
    options.servers.placement = plan.placement;
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
    options.servers.mode = plan.mode;
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
        for (const auto& elements : ranges)
          EXPECT_TRUE(std::all_of(work->parameters + elements.first, work->parameters + elements.end, [&](float one) {
            return one == work->parameters[elements.first];
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

/// What a partner gets is the code that its primary got.
TEST(Runtime, APartnerDecodesTheSameBitsAsItsPrimary) {
  constexpr int kRanks = 3;
  tensor::ArenaLayout layout;
  layout.add("weight", {5000});
  std::vector<std::vector<float>> ranges_of(kRanks), copies_of(kRanks);
  world::run_threads(kRanks, [&](world::World& world) {
    auto communicator = comm::Communicator::connect(world, {});
    const auto self = static_cast<std::size_t>(world.rank().value);
    Options options{.microbatches = 6, .compression = {Compression::int8}, .servers = {.tasks = kRanks}};
    Runtime::Setup setup{cluster_of(options, kRanks), {{0, 1700}, {1700, 3300}, {3300, layout.size()}}, layout.size()};
    const auto ranges = setup.ranges;
    std::vector<float> arena(layout.size()), copy(layout.size()), residual(layout.size());
    Runtime runtime(*communicator, std::move(setup), [&](const Apply& apply, const RangeGradient& gradient) {
      const auto range = static_cast<std::size_t>(apply.range);
      compression::add(std::span(range == self ? arena : copy).subspan(ranges[range].first, ranges[range].count()),
                       gradient.values);
    });
    const auto codes = codes_of(options, layout, ranges);
    runtime.use(codes);
    const StepParts parts = parts_of(options, kRanks);
    runtime.begin({.microbatches = std::ssize(parts.nodes), .steps = 5, .ranges = kRanks}, parts, arena.data(),
                  copy.data());
    while (const auto work = runtime.next([] {})) {
      std::byte* code = work->code;
      for (std::size_t i = 0; i < layout.size(); ++i)
        work->gradients[i] =
            static_cast<float>((work->step * 100 + work->part.index) * 7 % 13) - 5 + static_cast<float>(i % 91) / 100;
      for (std::size_t i = 0; i < ranges.size(); ++i) {
        const auto [first, end] = ranges[i];
        codes.gradients[i].encode({work->gradients + first, end - first},
                                  std::span(residual).subspan(first, end - first), code);
        code += codes.gradients[i].bytes();
      }
      runtime.computed();
    }
    EXPECT_EQ(runtime.end(), 5);
    communicator->barrier().wait();
    const auto kept = (self + kRanks - 1) % kRanks;  // of which this rank is the partner
    ranges_of[self].assign(arena.data() + ranges[self].first, arena.data() + ranges[self].end);
    copies_of[kept].assign(copy.data() + ranges[kept].first, copy.data() + ranges[kept].end);
  });
  for (std::size_t range = 0; range < kRanks; ++range) {
    EXPECT_EQ(ranges_of[range], copies_of[range]);
    EXPECT_NE(ranges_of[range], std::vector<float>(ranges_of[range].size()));
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

/// Ranks 3 and 4 have the servers. What they keep has each microbatch of the steps that had begun once.
void lose_a_worker(const Rules& rules, Pulls pulls) {
  constexpr std::size_t kParameters = 100'000;
  constexpr Rank kLost(1);
  std::mutex mutex;
  std::map<Rank, std::int64_t> kept;
  std::map<Rank, Rank> named;
  const auto on_rank = [&](world::World& world) {
    auto communicator = comm::Communicator::connect(world, {});
    Options options;
    options.servers.tasks = 2;
    options.servers.placement = Placement::own;
    Runtime::Setup setup{cluster_of(options, 5), {{0, 40'000}, {40'000, kParameters}}, kParameters, false, 1, pulls};
    const int own = setup.cluster.server_of(world.rank());
    const auto range = own < 0 ? optim::Elements{} : setup.ranges.at(static_cast<std::size_t>(own));
    std::vector<float> arena(kParameters);
    setup.keep_own = [&](std::int64_t steps) {
      const std::lock_guard lock(mutex);
      kept[world.rank()] = steps;
      const auto values = std::span(arena).subspan(range.first, range.count());
      EXPECT_EQ(std::ranges::count(values, static_cast<float>(steps * rules.microbatches)), std::ssize(values));
    };
    Runtime runtime(*communicator, std::move(setup), [&](const Apply& /*apply*/, const RangeGradient& gradient) {
      compression::add(std::span(arena).subspan(range.first, range.count()), gradient.values);
    });
    runtime.begin(rules, {4, {{0, 0}, {0, 1}, {0, 2}, {0, 3}}}, arena.data());
    try {
      for (int done = 0; const auto work = runtime.next([] {}); ++done) {
        if (world.rank() == kLost && done == 2) throw std::runtime_error("it dies");
        std::fill_n(work->gradients, kParameters, 1.0F);
        runtime.computed();
      }
      EXPECT_LT(runtime.end(), rules.steps);
      EXPECT_EQ(world.rank(), Rank(2)) << "only it had nothing to do with the lost one";
    } catch (const std::exception& error) {
      runtime.abort(error.what(), ExitCode::peer_lost);
      if (const auto* lost = dynamic_cast<const comm::PeerLost*>(&error)) {
        const std::lock_guard lock(mutex);
        named.emplace(world.rank(), lost->rank());
      }
      throw;
    }
  };
  EXPECT_THROW(world::run_threads(5, on_rank), std::runtime_error);
  EXPECT_EQ(kept.size(), 2u);
  EXPECT_EQ(kept[Rank(3)], kept[Rank(4)]);
  EXPECT_GT(kept[Rank(3)], 0);
  EXPECT_LT(kept[Rank(3)], rules.steps);
  for (const int rank : {0, 3, 4}) EXPECT_EQ(named[Rank(rank)], kLost);
}

TEST(Runtime, ARoundGoesOnToItsEndWithoutALostWorker) {
  Rules rules{.mode = Mode::asynchronous, .microbatches = 4, .steps = 1'000'000, .ranges = 2, .has_partners = false};
  lose_a_worker(rules, Pulls::messages);
  lose_a_worker(rules, Pulls::one_sided);
  rules.mode = Mode::bounded;
  rules.staleness = 1;
  lose_a_worker(rules, Pulls::automatic);
}

TEST(Runtime, ARankThatDoesNotEndTheRoundIsNamed) {
  std::atomic<bool> is_named = false;
  std::string told;
  const auto on_rank = [&](world::World& world) {
    comm::Options how;
    how.timeout_seconds = paced(0.25);
    auto communicator = comm::Communicator::connect(world, how);
    std::vector<float> arena(4);
    Runtime::Setup setup{cluster_of({}, 2), {{0, 2}, {2, 4}}, 4};
    setup.keep_own = [&](std::int64_t /*steps*/) {
      for (const Stopwatch watch; world.rank() == Rank(1) && !is_named && watch.seconds() < paced(20);)
        std::this_thread::sleep_for(Milliseconds(1));
    };
    Runtime runtime(*communicator, std::move(setup), [](const Apply&, const auto&) {});
    runtime.begin({.mode = Mode::asynchronous, .microbatches = 2, .steps = 1, .ranges = 2, .has_partners = false},
                  {2, {{0, 0}, {0, 1}}}, arena.data());
    try {
      while (runtime.next([] {})) runtime.computed();
    } catch (const CommError& error) {
      if (world.rank() == Rank(0)) told = error.what();
      is_named = true;
      runtime.abort(error.what(), error.exit_code());
      throw;
    }
  };
  EXPECT_THROW(world::run_threads(2, on_rank), CommError);
  EXPECT_THAT(told, AllOf(HasSubstr("rank 1 ("), HasSubstr("does not answer")));
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
    options.servers.tasks = 1;
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
  EXPECT_THAT(refusal({1, other_worker, server, push, {}}, 3), HasSubstr("has 12 bytes, but 16 are expected"));
  EXPECT_THAT(refusal({1, worker, server, push, {}}, 4), HasSubstr("rank 1 sent a message"));
  EXPECT_THAT(refusal({1, other_worker, other_server, push, {}}, 4), HasSubstr("to node 4, which is not possible"));
  EXPECT_THAT(refusal({1, other_worker, worker, Finish{Leadership(1), 1}, {}}, 0), HasSubstr("is no scheduler"));
  EXPECT_THAT(refusal({1, other_server, worker, Pulled{0, {}, 0, Version(0), 0, false}, {}}, 3),
              HasSubstr("came with 12 bytes of parameters, but 16 are expected"));
  EXPECT_THAT(refusal({1, other_server, worker, Pulled{0, {}, 0, Version(0), 0, false}, {}, 0, 0}, 0),
              HasSubstr("rank 1 has no memory from which range 0 could be read"));
  EXPECT_THAT(refusal({1, other_worker, Node(2), Ask{{}, {}, static_cast<Phase>(7), false}, {}}, 0),
              HasSubstr("has 7 as its phase"));
}
}  // namespace
}  // namespace distdl::parallel::server
