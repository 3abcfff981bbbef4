// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <barrier>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <poll.h>

#include <distdl/base/clock.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/program/contract.hpp>
#include <distdl/program/contract_lines.hpp>
#include <distdl/program/contract_server.hpp>
#include <distdl/program/rounds.hpp>
#include <distdl/world/thread_world.hpp>

namespace distdl::program {
namespace {
using testing::ElementsAre;
using testing::Pair;
using namespace std::chrono_literals;

std::unique_ptr<Contract> connect_to(const ContractServer& server) {
  ::setenv(kContractVariable, server.path().c_str(), 1);  // NOLINT(concurrency-mt-unsafe): before other threads begin
  return Contract::from_environment();
}

/// What the program tells, once there is something.
std::vector<FromProgram> heard(ContractServer& server, std::size_t count = 1) {
  std::vector<FromProgram> all;
  for (const auto deadline = Deadline::after(60s); all.size() < count && !deadline.expired(); ::poll(nullptr, 0, 1))
    for (auto& each : server.poll()) all.push_back(std::move(each));
  return all;
}

TEST(ContractLines, ThereAndBack) {
  const FromProgram told{.asks = true,
                         .call = 7,
                         .step = 12,
                         .steps = 100,
                         .metrics = {{"loss", 0.5}, {"odd \"name\"", NAN}},
                         .saved = 11,
                         .save_seconds = 1.5,
                         .finished = true,
                         .asks_left = true};
  const auto line = to_line(told);
  EXPECT_EQ(line.back(), '\n');
  const auto back = from_program(line);
  ASSERT_TRUE(back);
  EXPECT_TRUE(back->asks && back->finished && back->asks_left);
  EXPECT_EQ(std::tuple(*back->call, *back->step, *back->steps, *back->saved, *back->save_seconds),
            std::tuple(7, 12, 100, 11, 1.5));
  ASSERT_EQ(back->metrics.size(), 2U);
  EXPECT_TRUE(std::isnan(back->metrics[1].second));
  const auto answer = to_program(to_line(ToProgram{.is_asked = true, .stop_at = 9, .tells_left = true, .left = 3.5}));
  ASSERT_TRUE(answer && answer->is_asked && answer->tells_left);
  EXPECT_EQ(std::pair(*answer->stop_at, *answer->left), std::pair(std::int64_t{9}, 3.5));
}

TEST(ContractLines, OddOnesCountForNothing) {
  for (const char* line : {"", "x", "[]", "7", "{\"step\":", "\xff", "null"}) EXPECT_FALSE(from_program(line)) << line;
  const auto odd =
      from_program(R"({"step": "12", "steps": 1.5, "call": 1e30, "saved": 18446744073709551615, "metrics": [1],
                                    "finished": 1, "more": {}})");
  ASSERT_TRUE(odd);
  EXPECT_FALSE(odd->step || odd->steps || odd->call || odd->saved || odd->finished);
  EXPECT_TRUE(odd->metrics.empty());
}

TEST(Contract, IsNoneWhereDistdlHasNotStartedTheProgram) {
  ::unsetenv(kContractVariable);  // NOLINT(concurrency-mt-unsafe): one thread
  EXPECT_EQ(Contract::from_environment(), nullptr);
  ::setenv(kContractVariable, "/nowhere/s", 1);  // NOLINT(concurrency-mt-unsafe): one thread
  EXPECT_THROW(Contract::from_environment(), ConfigError);
}

TEST(Contract, TellsWhatTheProgramDoes) {
  ContractServer server;
  const auto contract = connect_to(server);
  const NamedValue loss{"loss", 0.25};
  contract->progress(3, 10, std::span(&loss, 1));
  contract->saved(2, 0.5);
  contract->finished();
  const auto told = heard(server, 3);
  ASSERT_EQ(told.size(), 3U);
  EXPECT_EQ(std::pair(*told[0].step, *told[0].steps), std::pair(std::int64_t{3}, std::int64_t{10}));
  EXPECT_THAT(told[0].metrics, ElementsAre(Pair("loss", 0.25)));
  EXPECT_EQ(std::pair(*told[1].saved, *told[1].save_seconds), std::pair(std::int64_t{2}, 0.5));
  EXPECT_TRUE(told[2].finished);
}

TEST(Contract, TellsTheTimeThatIsLeft) {
  ContractServer server;
  const auto contract = connect_to(server);
  std::optional<double> left;
  std::jthread program([&] { left = contract->seconds_left(); });
  ASSERT_TRUE(heard(server).front().asks_left);
  server.tell_left(42.5);
  program.join();
  EXPECT_EQ(left, 42.5);
}

TEST(Contract, OutlivesTheEndOfTheRank) {
  auto server = std::make_unique<ContractServer>();
  const auto contract = connect_to(*server);
  EXPECT_FALSE(contract->should_stop());
  server.reset();
  EXPECT_TRUE(contract->should_stop()) << "to save is all that is left";
  contract->progress(1);
  EXPECT_EQ(contract->seconds_left(), std::nullopt);
}

TEST(Contract, HearsOfAStopThatWasToldBefore) {
  ContractServer server;
  server.tell_asked();
  const auto contract = connect_to(server);
  EXPECT_TRUE(server.poll().empty());
  EXPECT_EQ(server.last_question(), 0) << "it does not ask";
  server.tell_stop_at(2);
  EXPECT_FALSE(contract->should_stop());
  EXPECT_TRUE(contract->should_stop());
  EXPECT_TRUE(contract->should_stop());
}

TEST(Contract, TheLastQuestionIsThatBeforeTheRequestIsHeardOf) {
  ContractServer server;
  const auto contract = connect_to(server);
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(contract->should_stop());
  EXPECT_EQ(heard(server, 3).back().call, 3);
  EXPECT_EQ(server.last_question(), std::nullopt) << "nobody was asked to stop";
  EXPECT_FALSE(contract->should_stop());
  server.tell_asked();
  EXPECT_EQ(server.last_question(), std::nullopt) << "the last one is not read yet";
  heard(server);
  EXPECT_EQ(server.last_question(), 4);
  std::jthread program([&] { EXPECT_TRUE(contract->should_stop()); });
  server.tell_stop_at(5);
}

/// Ranks as threads: each has a program that asks, a server, and the rounds; they are at different questions when the
/// stop comes, unless each step is a barrier of all. The processes of later ranks tell the request later.
void expect_a_common_end(bool is_lockstep) {
  constexpr int kRanks = 3;
  std::vector<std::unique_ptr<ContractServer>> servers;
  std::vector<std::unique_ptr<Contract>> contracts;
  for (int rank = 0; rank < kRanks; ++rank) {
    servers.push_back(std::make_unique<ContractServer>());
    contracts.push_back(connect_to(*servers.back()));
  }
  std::vector<std::int64_t> stopped(kRanks, 0);
  std::atomic<std::int64_t> questions{0};
  std::barrier<> step(kRanks);
  std::vector<std::jthread> programs;
  for (std::size_t rank = 0; rank < kRanks; ++rank)
    programs.emplace_back([&, rank] {
      do {
        if (is_lockstep)
          step.arrive_and_wait();
        else
          std::this_thread::sleep_for(std::chrono::milliseconds(1 + 2 * rank));
        ++stopped[rank];
        ++questions;
      } while (!contracts[rank]->should_stop());
      step.arrive_and_drop();
    });
  world::run_threads(kRanks, [&](world::World& world) {
    const auto rank = static_cast<std::size_t>(world.rank().value);
    Rounds rounds(comm::Communicator::connect(world, {}));
    RankReport mine;
    bool told_asked = false, told_stop = false;
    for (const auto deadline = Deadline::after(40s); !deadline.expired(); std::this_thread::sleep_for(1ms)) {
      for (const auto& each : servers[rank]->poll())
        if (each.asks) mine.asks = 1;
      mine.call = servers[rank]->last_question().value_or(-1);
      if (rank == 1 && questions > 60) mine.wants_stop = 1;
      if (told_stop) mine.has_ended = 1;
      rounds.set(mine);
      rounds.check();
      const auto reports = rounds.newest();
      if (reports.empty()) continue;
      const auto found = conclude(reports);
      if (found.stops && !std::exchange(told_asked, true)) {
        std::this_thread::sleep_for(20ms * rank);
        servers[rank]->tell_asked();
      }
      if (found.stop_at && !std::exchange(told_stop, true)) servers[rank]->tell_stop_at(*found.stop_at);
      if (found.all_ended) return;
    }
    ADD_FAILURE() << "the ranks do not agree";
    servers[rank].reset();  // which ends the programs
  });
  programs.clear();
  EXPECT_GT(stopped[0], 0);
  EXPECT_THAT(stopped, testing::Each(stopped[0]));
}

TEST(Contract, AllRanksStopAtOneQuestion) {
  expect_a_common_end(false);
}

TEST(Contract, RanksThatWaitForEachOtherAtEachStepStopAtOneQuestion) {
  expect_a_common_end(true);
}
}  // namespace
}  // namespace distdl::program
