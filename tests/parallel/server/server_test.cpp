// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <gtest/gtest.h>

#include <distdl/base/errors.hpp>
#include <distdl/parallel/server/range_copy.hpp>
#include <distdl/parallel/server/scheduler.hpp>
#include <distdl/parallel/server/server.hpp>
#include <distdl/parallel/server/worker.hpp>

namespace distdl::parallel::server {
namespace {

constexpr Node kWorker{1}, kOther{2}, kServer{3};

LeaseId lease(std::int64_t number) {
  return {Leadership(1), number};
}

template <class Kind>
std::vector<Kind> all_of(const Actions& actions) {
  std::vector<Kind> found;
  for (const Action& action : actions)
    if (const auto* of_its_kind = std::get_if<Kind>(&action)) found.push_back(*of_its_kind);
  return found;
}

TEST(RangeCopy, AppliesTheGradientsOfAStepInTheirOrderWhenAllAreThere) {
  const Rules rules{.mode = Mode::synchronous, .microbatches = 3, .steps = 2};
  RangeCopy copy(0, rules);
  Actions actions;
  for (const int i : {2, 0, 1}) {
    EXPECT_TRUE(all_of<Apply>(actions).empty());
    copy.accept({Microbatch(i)});
    copy.commit(copy.accepted(), actions);
  }
  const auto applied = all_of<Apply>(actions);
  ASSERT_EQ(applied.size(), 1u);
  EXPECT_EQ(applied[0].microbatches, (std::vector{Microbatch(0), Microbatch(1), Microbatch(2)}));
  EXPECT_EQ(applied[0].version, Version(1));
}

/// Also of the partner: before it says that it has the last update of the step, and so before anybody reads the step.
TEST(Server, AVersionIsKeptBeforeAnybodyIsToldOfIt) {
  const Rules rules{.mode = Mode::synchronous, .microbatches = 1, .steps = 3};
  const std::vector placement{Holders{kOther, kServer, Term(1)}};
  Server partner(rules, kServer, placement);
  partner.receive(kOther, Replicate{0, Term(1), 0, Microbatch(0)});
  const auto actions = partner.take();
  const auto index_of = [&](auto is) { return std::ranges::find_if(actions, is) - actions.begin(); };
  const auto keep = index_of([](const Action& action) { return std::holds_alternative<Keep>(action); });
  EXPECT_LT(index_of([](const Action& action) { return std::holds_alternative<Apply>(action); }), keep);
  EXPECT_LT(keep, index_of([](const Action& action) { return std::holds_alternative<Send>(action); }));
  ASSERT_EQ(all_of<Keep>(actions).size(), 1u);
  EXPECT_EQ(all_of<Keep>(actions)[0].version, Version(1));

  const Rules alone{.mode = Mode::synchronous, .microbatches = 1, .steps = 3, .has_partners = false};
  Server server(alone, kServer, {Holders{kServer, {}, Term(1)}});
  server.receive(kWorker, Push{0, lease(1), Microbatch(0)});
  EXPECT_TRUE(all_of<Keep>(server.take()).empty());
}

TEST(RangeCopy, NothingIsReadBeforeItIsCommitted) {
  const Rules rules{.mode = Mode::asynchronous, .microbatches = 1, .steps = 4};
  RangeCopy copy(0, rules);
  Actions actions;
  copy.accept({Microbatch(0)});
  EXPECT_TRUE(copy.is_accepted(Microbatch(0)));
  EXPECT_FALSE(copy.is_committed(Microbatch(0)));
  EXPECT_EQ(copy.pin(kWorker, lease(1), Microbatch(1), actions), Version(0));
  copy.commit(1, actions);
  EXPECT_EQ(copy.pin(kOther, lease(2), Microbatch(1), actions), Version(1));
}

TEST(RangeCopy, AVersionStaysWhileItIsRead) {
  const Rules rules{.mode = Mode::asynchronous, .microbatches = 1, .steps = 4};
  RangeCopy copy(0, rules);
  Actions actions;
  EXPECT_EQ(copy.pin(kWorker, lease(1), Microbatch(3), actions), Version(0));
  for (const int i : {0, 1}) {
    copy.accept({Microbatch(i)});
    copy.commit(copy.accepted(), actions);
  }
  EXPECT_TRUE(copy.has(Version(0)));
  EXPECT_FALSE(copy.has(Version(1)));
  EXPECT_EQ(copy.pin(kWorker, lease(1), Microbatch(3), actions), Version(0));  // a repeated pull
  EXPECT_EQ(copy.state().versions, std::vector{Version(2)});
  actions.clear();
  copy.release(kWorker, lease(0), actions);  // of an older lease
  EXPECT_TRUE(copy.has(Version(0)));
  copy.release(kWorker, lease(1), actions);
  EXPECT_FALSE(copy.has(Version(0)));
  EXPECT_EQ(all_of<Forget>(actions).size(), 1u);
}

TEST(RangeCopy, TheLastStepCanBeReadUntilTheNextHasAnUpdate) {
  const Rules rules{.mode = Mode::synchronous, .microbatches = 2, .steps = 3};
  RangeCopy copy(0, rules);
  Actions actions;
  for (const int i : {0, 1}) copy.accept({Microbatch(i)});
  copy.commit(2, actions);
  EXPECT_EQ(copy.pin(kWorker, lease(1), Microbatch(1), actions), Version(0));
  copy.release(kWorker, lease(1), actions);
  EXPECT_TRUE(copy.has(Version(0)));
  copy.accept({Microbatch(3)});
  copy.commit(3, actions);
  EXPECT_FALSE(copy.has(Version(0)));
}

TEST(RangeCopy, CountsTheUpdatesThatAGradientLacked) {
  const Rules rules{.mode = Mode::asynchronous, .microbatches = 1, .steps = 4};
  RangeCopy copy(0, rules);
  Actions actions;
  for (const int i : {0, 1, 2}) copy.accept({Microbatch(i), Version(0)});
  copy.commit(3, actions);
  const auto applied = all_of<Apply>(actions);
  ASSERT_EQ(applied.size(), 3u);
  EXPECT_EQ(applied[2].staleness, 2);
}

TEST(Server, RefusesAGradientOfParametersThatAreTooOld) {
  const Rules rules{.mode = Mode::bounded, .staleness = 1, .microbatches = 1, .steps = 5};
  Server server(rules, kServer, {Holders{kServer, {}, Term(1)}});
  server.receive(kWorker, Push{0, lease(1), Microbatch(1), Version(0), 0});
  EXPECT_THROW(server.receive(kWorker, Push{0, lease(2), Microbatch(2), Version(0), 0}), InternalError);
}

/// As from a damaged packet, or of a rank with another job file.
TEST(Messages, WithNumbersOfAnotherRunAreRefused) {
  const Rules rules{.mode = Mode::bounded, .staleness = 1, .microbatches = 2, .steps = 3, .ranges = 2, .pieces = 2};
  const LeaseId id = lease(1);
  const Directory directory{Leadership(1), 1, {kServer, kServer}}, short_one{Leadership(1), 1, {kServer}};
  Worker worker(rules);
  Server server(rules, kServer, {Holders{kServer, {}, Term(1)}, Holders{kServer, {}, Term(1)}});
  Scheduler scheduler(rules, Leadership(1), {kServer}, {kWorker});
  MicrobatchSet early, late(Microbatch(7));
  early.add(Microbatch(6));
  const std::vector<Message> refused{Lease{id, Microbatch(0), short_one},
                                     Lease{id, Microbatch(6), directory},
                                     Lease{id, Microbatch(-1), directory},
                                     Pulled{2, id, 0, Version(0), 0, false},
                                     Pulled{-1, id, 0, Version(0), 0, false},
                                     Pulled{0, id, 2, Version(0), 0, false},
                                     Pulled{0, id, 0, Version(7), 0, false},
                                     Pulled{0, id, 0, Version(0), 4, false},
                                     Pushed{2, Microbatch(0)},
                                     Pushed{0, Microbatch(6)},
                                     Finish{Leadership(1), 4},
                                     Pull{0, id, Microbatch(0), -1, Version(0)},
                                     Push{2, id, Microbatch(0), Version(0), 0},
                                     Push{0, id, Microbatch(0), Version(-1), 0},
                                     Replicate{0, Term(1), -1, Microbatch(0), Version(0)},
                                     Copy{0, Term(2), {{}, {}, {}}},
                                     Copy{0, Term(2), {{}, {Version(0)}, {}}},
                                     Copy{0, Term(2), {early, {Version(0)}, {0}}},
                                     Replicated{0, Term(1), 7},
                                     Assign{Leadership(1), 2, {kServer, {}, Term(2)}},
                                     Holding{-1, Term(1), true},
                                     Ask{id, Microbatch(6), Phase::working, false},
                                     Inventory{Leadership(1), 1, {{2, Term(1), true, {}, true, {}}}},
                                     Inventory{Leadership(1), 1, {{0, Term(1), true, {}, true, late}}}};
  for (const Message& message : refused) {
    EXPECT_THROW(worker.receive(kServer, message), CommError) << message.index();
    EXPECT_THROW(server.receive(kWorker, message), CommError) << message.index();
    EXPECT_THROW(scheduler.receive(kServer, message), CommError) << message.index();
  }
  worker.receive(Node(10), Lease{id, Microbatch(5), directory});
  EXPECT_EQ(all_of<Send>(worker.take()).size(), 2u) << "pulls of two ranges";
  EXPECT_THROW(server.receive(kWorker, Push{0, id, Microbatch(0), Version(1), 1}), CommError)
      << "the parameters are not there yet";
}

TEST(Server, ForgetsWhatALostWorkerReads) {
  const Rules rules{.mode = Mode::asynchronous, .microbatches = 1, .steps = 5};
  Server server(rules, kServer, {Holders{kServer, {}, Term(1)}});
  server.receive(kWorker, Pull{0, lease(1), Microbatch(1), 0, Version(0)});
  server.receive(kOther, Push{0, lease(2), Microbatch(0), Version(0), 0});
  EXPECT_TRUE(all_of<Forget>(server.take()).empty());
  server.lost(kWorker);
  const auto forgotten = all_of<Forget>(server.take());
  ASSERT_EQ(forgotten.size(), 1u);
  EXPECT_EQ(forgotten[0].version, Version(0));
  server.receive(kWorker, Pull{0, lease(1), Microbatch(1), 0, Version(0)});
  EXPECT_TRUE(server.take().empty());  // nor does it begin again
}

TEST(Server, ObeysNoOlderScheduler) {
  const Rules rules{.mode = Mode::asynchronous, .microbatches = 1, .steps = 5};
  Server server(rules, kServer, {Holders{kServer, kOther, Term(1)}});
  server.receive(Node(10), Lead{Leadership(2), 1});
  EXPECT_EQ(all_of<Send>(server.take()).size(), 1u);
  const Holders alone{kServer, {}, Term(2)};
  for (const Message& message : {Message(Assign{Leadership(1), 0, alone}), Message(Lead{Leadership(1), 1})}) {
    server.receive(Node(9), message);
    EXPECT_TRUE(server.take().empty());
  }
  server.receive(Node(10), Assign{Leadership(2), 0, alone});
  const auto sent = all_of<Send>(server.take());
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_TRUE(std::get<Holding>(sent[0].message).is_copied);
}

TEST(Server, TakesNoCopyOfAnOlderTerm) {
  const Rules rules{.mode = Mode::asynchronous, .microbatches = 1, .steps = 5};
  Server server(rules, kServer, {Holders{kServer, {}, Term(3)}});
  server.receive(kOther, Copy{0, Term(2), {{}, {Version(0)}, {0}}});
  EXPECT_TRUE(server.take().empty()) << "else the older primary would take updates to be safe that nobody has";
}

TEST(Worker, IsNotFinishedByAnOlderScheduler) {
  const Rules rules{.microbatches = 1, .steps = 5};
  Worker worker(rules);
  worker.receive(Node(10), Lead{Leadership(2), 1});
  worker.receive(Node(9), Finish{Leadership(1), 5});
  EXPECT_FALSE(worker.is_finished()) << "the newer one may have leased to it what the older one knows to be done";
  worker.receive(Node(10), Finish{Leadership(2), 5});
  EXPECT_TRUE(worker.is_finished());
  worker.receive(Node(11), Lead{Leadership(3), 1});
  EXPECT_FALSE(worker.is_finished()) << "the newest one may not know yet that all is done";
}

TEST(Scheduler, IgnoresAnswersToAnEarlierQuestion) {
  const Rules rules{.mode = Mode::asynchronous, .microbatches = 1, .steps = 5};
  Scheduler scheduler(rules, Leadership(1), {kServer, kOther}, {kWorker});
  const auto round_of = [&] { return std::get<Lead>(all_of<Send>(scheduler.take()).front().message).round; };
  const std::int64_t first = round_of();
  scheduler.lost(kOther);
  const std::int64_t second = round_of();
  EXPECT_GT(second, first);
  const Inventory::Held held{0, Term(1), true, kOther, true, {}};
  scheduler.receive(kServer, Inventory{Leadership(1), first, {held}});
  EXPECT_EQ(scheduler.done(), nullptr);
  scheduler.receive(kServer, Inventory{Leadership(1), second, {held}});
  ASSERT_NE(scheduler.done(), nullptr);
  EXPECT_EQ(scheduler.holders().at(0), (Holders{kServer, {}, Term(2)}));
}

TEST(Scheduler, TellsThatARangeHasLostBothHolders) {
  const Rules rules{.mode = Mode::asynchronous, .microbatches = 1, .steps = 5};
  Scheduler scheduler(rules, Leadership(1), {kServer}, {kWorker});
  scheduler.take();
  scheduler.receive(kServer, Inventory{Leadership(1), 1, {}});
  EXPECT_EQ(all_of<Restart>(scheduler.take()).size(), 1u);
  EXPECT_THROW(Scheduler(rules, Leadership(1), {}, {kWorker}), ConfigError);
}

/// Nobody has to ask again.
TEST(Scheduler, AnswersAWorkerWhenThereIsSomethingForIt) {
  const Rules rules{.mode = Mode::synchronous, .microbatches = 1, .steps = 4, .has_partners = false};
  Scheduler scheduler(rules, Leadership(1), {kServer}, {kWorker, kOther});
  scheduler.take();
  const auto leases_of = [&](Node worker) {
    std::vector<Microbatch> given;
    for (const auto& out : all_of<Send>(scheduler.take()))
      if (const auto* to_worker = std::get_if<Lease>(&out.message); to_worker && out.to == worker)
        given.push_back(to_worker->microbatch);
    return given;
  };
  scheduler.receive(kWorker, Ask{});
  EXPECT_TRUE(leases_of(kWorker).empty()) << "the server has not told what it has";
  scheduler.receive(kServer, Inventory{Leadership(1), 1, {{0, Term(1), true, {}, true, {}}}});
  EXPECT_EQ(leases_of(kWorker), (std::vector{Microbatch(0)}));
  scheduler.receive(kOther, Ask{});
  scheduler.take();
  scheduler.receive(kOther, Ask{{Leadership(1), 2}, Microbatch(1), Phase::idle, true});
  EXPECT_TRUE(leases_of(kOther).empty()) << "the first step is not done";
  scheduler.receive(kWorker, Ask{{Leadership(1), 1}, Microbatch(0), Phase::idle, true});
  EXPECT_EQ(leases_of(kOther), (std::vector{Microbatch(3)})) << "the worker that told it has the one before";
}

TEST(Server, AcknowledgesWhenThePartnerHasTheUpdate) {
  const Rules rules{.mode = Mode::asynchronous, .microbatches = 1, .steps = 5};
  Server server(rules, kServer, {Holders{kServer, kOther, Term(1)}});
  server.receive(kWorker, Push{0, lease(1), Microbatch(0)});
  auto sent = all_of<Send>(server.take());
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].to, kOther);
  server.receive(kOther, Replicated{0, Term(1), 1});
  sent = all_of<Send>(server.take());
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_TRUE(std::holds_alternative<Pushed>(sent[0].message));
  EXPECT_EQ(sent[0].to, kWorker);
}

}  // namespace
}  // namespace distdl::parallel::server
