// SPDX-License-Identifier: Apache-2.0
// Lazily opened endpoints, and waits over activities.
#include <atomic>
#include <mutex>
#include <thread>

#include <gmock/gmock.h>
#include <time.h>

#include "tests/comm/ucx/connected_fabrics.hpp"
#include "tests/pace.hpp"

namespace distdl::comm {
namespace {
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

void exchange_with(Fabric& fabric, Rank peer, std::uint32_t number) {
  const int mine = fabric.rank().value;
  int theirs = -1;
  Batch batch(fabric);
  fabric.receive(batch, room_of(theirs), peer, {.number = number});
  fabric.send(batch, bytes_of(mine), peer, {.number = number});
  fabric.wait(batch, {"exchange", number});
  EXPECT_EQ(theirs, peer.value);
}

TEST(Endpoints, OpenOnlyToThosePeersThatARankSpeaksWith) {
  on_fabrics(4, [](Fabric& fabric) {
    EXPECT_EQ(fabric.open_endpoints(), 0);
    const Rank partner(fabric.rank().value ^ 1), other(fabric.rank().value ^ 2);
    exchange_with(fabric, partner, 1);
    EXPECT_EQ(fabric.open_endpoints(), 1);
    EXPECT_TRUE(fabric.proved(partner));
    EXPECT_FALSE(fabric.proved(other));
    EXPECT_EQ(fabric.lanes_to(other), "not connected");
    fabric.close();
  });
}

TEST(Endpoints, OpenFromAllSidesAtOnce) {
  for (int round = 0; round < 5; ++round)
    on_fabrics(6, [](Fabric& fabric) {
      std::vector<int> theirs(6, -1);
      const int mine = fabric.rank().value;
      Batch batch(fabric);
      for (int r = 0; r < 6; ++r) {
        if (Rank(r) == fabric.rank()) continue;
        fabric.receive(batch, room_of(theirs[r]), Rank(r), {});
        fabric.send(batch, bytes_of(mine), Rank(r), {});
      }
      fabric.wait(batch, {"exchange", 1});
      theirs[mine] = mine;
      EXPECT_THAT(theirs, ElementsAre(0, 1, 2, 3, 4, 5));
      EXPECT_EQ(fabric.refused().handshake_messages, 0);
      fabric.close();
    });
}

// The sender neither knows nor cares whether the receiver has ever thought of it.
TEST(Endpoints, SenderGetsThroughToAPeerThatOnlyWaitsForAnother) {
  on_fabrics(3, [](Fabric& fabric) {
    if (fabric.rank() == Rank(0)) {
      exchange_with(fabric, Rank(1), 1);
      exchange_with(fabric, Rank(2), 1);
    } else if (fabric.rank() == Rank(1)) {
      std::this_thread::sleep_for(Milliseconds(100));
      exchange_with(fabric, Rank(0), 1);
    } else {
      exchange_with(fabric, Rank(0), 1);
    }
    fabric.close();
  });
}

TEST(Endpoints, MessagesOfOneLabelKeepTheirOrderBeforeAndAfterTheHandshake) {
  on_fabrics(2, [](Fabric& fabric) {
    constexpr int kCount = 200;
    std::vector<std::vector<int>> values;
    // Short and long ones: eager and rendezvous.
    for (int i = 0; i < kCount; ++i) values.emplace_back(i % 10 == 7 ? 50000 : 1, fabric.rank() == Rank(0) ? i : -1);
    Batch batch(fabric);
    for (auto& value : values) {
      if (fabric.rank() == Rank(0))
        fabric.send(batch, std::as_bytes(std::span(value)), Rank(1), {.number = 3});
      else
        fabric.receive(batch, std::as_writable_bytes(std::span(value)), Rank(0), {.number = 3});
    }
    fabric.wait(batch, {"series", 3});
    for (int i = 0; i < kCount; ++i) EXPECT_EQ(values[i].back(), i);
    fabric.close();
  });
}

TEST(Endpoints, BatchGivenUpBeforeTheHandshakeLeavesNothingBehind) {
  on_fabrics(2, [](Fabric& fabric) {
    const Rank other(1 - fabric.rank().value);
    {
      int never = 0;
      Batch batch(fabric);
      fabric.receive(batch, room_of(never), other, {.number = 9});
    }
    exchange_with(fabric, other, 1);
    fabric.close();
  });
}

TEST(Endpoints, PeerThatLeftBeforeTheFirstWordIsNamed) {
  std::atomic<bool> left = false;
  on_fabrics(
      2,
      [&](Fabric& fabric) {
        if (fabric.rank() == Rank(1)) {
          fabric.abort("gone", ExitCode::ok);
          left = true;
          return;
        }
        while (!left) std::this_thread::yield();
        std::this_thread::sleep_for(Milliseconds(20));
        try {
          exchange_with(fabric, Rank(1), 1);
          ADD_FAILURE() << "no error";
        } catch (const PeerLost& lost) {
          EXPECT_EQ(lost.rank(), Rank(1));
          EXPECT_THAT(lost.what(), AllOf(HasSubstr("exchange 1"), HasSubstr("rank 1 (")));
        }
      },
      with_timeout(1));
}

TEST(Endpoints, PeerThatNeverAnswersTheHelloRunsIntoTheDeadline) {
  std::atomic<bool> over = false;
  on_fabrics(
      2,
      [&](Fabric& fabric) {
        if (fabric.rank() == Rank(1)) {
          while (!over) std::this_thread::yield();
          return;
        }
        try {
          exchange_with(fabric, Rank(1), 1);
          ADD_FAILURE() << "no error";
        } catch (const PeerLost& lost) {
          EXPECT_EQ(lost.rank(), Rank(1));
          EXPECT_THAT(lost.what(), HasSubstr("does not answer and has not yet proved that it belongs to this job"));
        }
        over = true;
      },
      with_timeout(0.3));
}

// 0 - 1 - 2 - 3: only neighbours speak; the end of the chain stops.
TEST(Gossip, WordOfALossReachesRanksThatShareNoEndpointWithTheLost) {
  std::atomic<int> met = 0;
  on_fabrics(4, [&](Fabric& fabric) {
    const int self = fabric.rank().value;
    for (int pair = 0; pair < 3; ++pair)
      if (self == pair || self == pair + 1) exchange_with(fabric, Rank(2 * pair + 1 - self), 1);
    ++met;
    if (self == 3) {
      while (met < 4) fabric.poll();
      return fabric.abort("cannot open \"x.h5\"", ExitCode::config);
    }
    int never = 0;
    Batch batch(fabric);
    fabric.receive(batch, room_of(never), Rank(self == 0 ? 1 : self - 1), {.number = 2});
    try {
      fabric.wait(batch, {"broadcast", 2});
      ADD_FAILURE() << "no error";
    } catch (const PeerLost& lost) {
      EXPECT_EQ(lost.rank(), Rank(3));
      EXPECT_EQ(lost.exit_code(), ExitCode::config);
      EXPECT_THAT(lost.ranks(), ElementsAre(Rank(3)));
      EXPECT_THAT(lost.what(), AllOf(HasSubstr("broadcast 2: rank 3 ("), HasSubstr("cannot open \"x.h5\"")));
    }
  });
}

/// A loss board for ranks that are threads.
struct Board {
  std::mutex mutex;
  std::optional<NodeLoss> loss;
  LossBoard view() {
    return {[this](const NodeLoss& one) {
              const std::lock_guard lock(mutex);
              if (!loss) loss = one;
            },
            [this] {
              const std::lock_guard lock(mutex);
              return loss;
            },
            {},
            {}};
  }
};

/// Waits for memory.
class Flag final : public Activity {
 public:
  explicit Flag(Fabric& fabric, std::vector<Rank> awaited = {}) : fabric_(fabric), awaited_(std::move(awaited)) {
    fabric_.add(*this);
  }
  ~Flag() override { fabric_.remove(*this); }
  Flag(const Flag&) = delete;
  Flag& operator=(const Flag&) = delete;
  bool advance() override {
    ++looks;
    if (fail) throw ConfigError("no such thing");
    return raised;
  }
  void add_awaited(std::vector<Rank>& ranks) const override {
    ranks.insert(ranks.end(), awaited_.begin(), awaited_.end());
  }
  Operation operation() const override { return {"flag", 4}; }
  bool polls() const override { return true; }
  void cancel() noexcept override { cancelled = true; }

  std::atomic<bool> raised = false;
  bool cancelled = false, fail = false;
  int looks = 0;

 private:
  Fabric& fabric_;
  std::vector<Rank> awaited_;
};

TEST(LossBoard, TellsRanksOfANodeThatShareNoEndpoint) {
  Board board;
  on_fabrics(3, [&](Fabric& fabric) {
    fabric.use(board.view());
    if (fabric.rank() == Rank(1)) return fabric.abort("out of memory", ExitCode::internal);
    Flag flag(fabric, {Rank(1)});
    const Stopwatch stopwatch;
    try {
      fabric.wait(flag, Milliseconds(20000));
      ADD_FAILURE() << "no error";
    } catch (const PeerLost& lost) {
      EXPECT_THAT(lost.what(), AllOf(HasSubstr("flag 4: rank 1 ("), HasSubstr("out of memory")));
      EXPECT_EQ(lost.exit_code(), ExitCode::internal);
    }
    EXPECT_LT(stopwatch.seconds(), paced(1));
    EXPECT_EQ(fabric.open_endpoints(), 0);
  });
}

// Rank 1 cannot get a word through: rank 2, frozen, blocks the way. But the board shows that it lives and waits, too.
TEST(LossBoard, AnswersForANodeRankWhoseMessagesAreHeldUp) {
  std::atomic<bool> over = false;
  on_fabrics(3, [&](Fabric& fabric) {
    if (fabric.rank() != Rank(0)) {
      while (!over) std::this_thread::yield();
      return;
    }
    NodeWait shown{.looks = 4, .awaited = Rank(2), .operation = "flag 4"};
    int shows = 0;
    fabric.use({{},
                {},
                [&](std::optional<Rank> awaited, const Operation& operation) {
                  EXPECT_TRUE(awaited == Rank(1) && to_string(operation) == "flag 4");
                  ++shows;
                },
                [&](Rank rank) {
                  if (rank == Rank(1)) return shown.looks += 2, std::optional(shown);
                  return std::optional(NodeWait{.looks = 6, .awaited = Rank(1), .operation = "long ago"});
                }});
    Flag flag(fabric, {Rank(1)});
    try {
      fabric.wait(flag, Milliseconds(200));
      ADD_FAILURE() << "no error";
    } catch (const PeerLost& lost) {
      EXPECT_EQ(lost.rank(), Rank(2));
      EXPECT_THAT(lost.what(), AllOf(HasSubstr("rank 1 ("), HasSubstr("which waits in flag 4 for rank 2 (")));
    }
    EXPECT_GT(shows, 10) << "a wait shows itself";
    over = true;
  });
}

TEST(Activities, AllAdvanceInTheWaitForOne) {
  on_fabrics(1, [](Fabric& fabric) {
    Flag first(fabric), second(fabric);
    std::thread raise([&] {
      std::this_thread::sleep_for(Milliseconds(20));
      first.raised = second.raised = true;
    });
    fabric.wait(second, Milliseconds(20000));
    raise.join();
    EXPECT_GT(first.looks, 0);
    fabric.poll();
    EXPECT_FALSE(fabric.under_way(first));
    const int looks = first.looks;
    fabric.poll();
    EXPECT_EQ(first.looks, looks) << "advanced after it was done";
    fabric.wait(first, {});
  });
}

TEST(Activities, SleepWhileTheyPollYetWakeSoon) {
  on_fabrics(1, [](Fabric& fabric) {
    const auto cpu_time = [] {
      timespec time{};
      ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
      return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
    };
    Flag flag(fabric);
    std::atomic<Clock::time_point> raised{};
    std::thread raise([&] {
      std::this_thread::sleep_for(Milliseconds(300));
      raised = Clock::now();
      flag.raised = true;
    });
    const double before = cpu_time();
    fabric.wait(flag, Milliseconds(20000));
    const double late = std::chrono::duration<double>(Clock::now() - raised.load()).count();
    EXPECT_LT(cpu_time() - before, 0.15) << "of 0.3 s waited";
    raise.join();
    EXPECT_LT(late, 0.05);
  });
}

TEST(Activities, OnesErrorEndsAllAndComesAgain) {
  on_fabrics(1, [](Fabric& fabric) {
    Flag good(fabric), bad(fabric);
    bad.fail = true;
    EXPECT_THROW(fabric.wait(good, Milliseconds(20000)), ConfigError);
    EXPECT_TRUE(good.cancelled);
    EXPECT_TRUE(bad.cancelled);
    EXPECT_FALSE(fabric.under_way(good));
    EXPECT_THROW(fabric.wait(good, Milliseconds(20000)), ConfigError);
    EXPECT_THROW(fabric.poll(), ConfigError);
    EXPECT_THROW(Flag{fabric}, ConfigError);
  });
}

TEST(Activities, LossEndsAllAndIsThrownAgainAtOnceUnderEachOnesName) {
  std::atomic<int> met = 0;
  on_fabrics(3, [&](Fabric& fabric) {
    const int self = fabric.rank().value;
    for (int pair : {0, 1, 2})
      if (self != pair) exchange_with(fabric, Rank(3 - self - pair), 1);
    ++met;
    if (self == 2) {
      while (met < 3) fabric.poll();
      return fabric.abort("enough", ExitCode::peer_lost);
    }
    Flag flag(fabric);
    std::vector<int> room(100000);
    Batch batch(fabric);
    fabric.receive(batch, std::as_writable_bytes(std::span(room)), Rank(2), {.number = 2});
    EXPECT_THROW(fabric.wait(batch, {"reduce", 2}), PeerLost);
    EXPECT_TRUE(batch.done());
    EXPECT_TRUE(flag.cancelled);
    const Stopwatch stopwatch;
    try {
      fabric.wait(flag, Milliseconds(20000));
      ADD_FAILURE() << "no error";
    } catch (const PeerLost& lost) {
      EXPECT_THAT(lost.what(), AllOf(HasSubstr("flag 4: rank 2 ("), HasSubstr("enough")));
      EXPECT_THAT(lost.ranks(), ElementsAre(Rank(2)));
    }
    EXPECT_THROW(fabric.poll(), PeerLost);
    EXPECT_THROW(fabric.wait(batch, {"reduce", 3}), PeerLost);
    EXPECT_LT(stopwatch.seconds(), paced(1));
  });
}

TEST(Activities, PollSeesALoss) {
  std::atomic<int> met = 0;
  on_fabrics(2, [&](Fabric& fabric) {
    exchange_with(fabric, Rank(1 - fabric.rank().value), 1);
    ++met;
    if (fabric.rank() == Rank(1)) {
      while (met < 2) fabric.poll();
      return fabric.abort("enough", ExitCode::peer_lost);
    }
    Flag flag(fabric);
    const Deadline deadline = Deadline::after(paced(Milliseconds(10000)));
    EXPECT_THROW(while (!deadline.expired()) fabric.poll(), PeerLost);
    EXPECT_TRUE(flag.cancelled);
  });
}

TEST(Activities, MessageOfAnotherSizeIsAnErrorWhileOthersAreStillAwaited) {
  std::atomic<bool> over = false;
  on_fabrics(2, [&](Fabric& fabric) {
    const std::array<int, 2> two{};
    std::array<int, 1> one{};
    Batch batch(fabric);
    if (fabric.rank() == Rank(0)) {
      fabric.send(batch, std::as_bytes(std::span(two)), Rank(1), {});
      fabric.wait(batch, {"send", 1});
      while (!over) fabric.poll();
      return;
    }
    fabric.receive(batch, std::as_writable_bytes(std::span(one)), Rank(0), {});
    fabric.receive(batch, std::as_writable_bytes(std::span(one)), Rank(0), {});
    try {
      fabric.wait(batch, {"receive", 1});
      ADD_FAILURE() << "no error";
    } catch (const CommError& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr("rank 0"), HasSubstr("expected 4")));
    }
    over = true;
  });
}

// Each waits for the next one: the chain leads to the one that is stuck elsewhere.
TEST(Activities, DeadlineFollowsTheChainOfThoseWhoWait) {
  std::atomic<int> over = 0;
  on_fabrics(
      3,
      [&](Fabric& fabric) {
        const int self = fabric.rank().value;
        for (int pair : {0, 1, 2})
          if (self != pair) exchange_with(fabric, Rank(3 - self - pair), 1);
        if (self == 2) {
          while (over < 2) std::this_thread::yield();
          return;
        }
        Flag flag(fabric, {Rank(self + 1)});
        try {
          fabric.wait(flag, Milliseconds(self == 0 ? 300 : 5000));
          ADD_FAILURE() << "no error";
        } catch (const PeerLost& lost) {
          EXPECT_EQ(lost.rank(), Rank(2));
          if (self == 0) {
            EXPECT_THAT(lost.what(), AllOf(HasSubstr("rank 1 ("), HasSubstr("which waits in flag 4 for rank 2 (")));
          }
        }
        ++over;
      },
      with_timeout(20));
}

TEST(Activities, MayNotWaitForEachOther) {
  on_fabrics(1, [](Fabric& fabric) {
    class Nested final : public Activity {
     public:
      explicit Nested(Fabric& fabric) : fabric_(fabric), flag_(fabric) { fabric_.add(*this); }
      ~Nested() override { fabric_.remove(*this); }
      bool advance() override { return fabric_.wait(flag_, Milliseconds(100)), true; }
      void add_awaited(std::vector<Rank>& /*ranks*/) const override {}
      Operation operation() const override { return {"nested", 1}; }
      void cancel() noexcept override {}

     private:
      Fabric& fabric_;
      Flag flag_;
    } nested(fabric);
    EXPECT_THROW(fabric.wait(nested, Milliseconds(1000)), InternalError);
  });
}

}  // namespace
}  // namespace distdl::comm
