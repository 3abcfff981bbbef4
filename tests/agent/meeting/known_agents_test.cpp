// SPDX-License-Identifier: Apache-2.0
#include <filesystem>

#include <gtest/gtest.h>
#include <poll.h>

#include <distdl/agent/meeting/known_agents.hpp>
#include <distdl/base/random.hpp>
#include <distdl/version.hpp>

namespace distdl::agent {
namespace {
namespace fs = std::filesystem;
using namespace std::chrono_literals;

/// Node 0 of a launch of two, in which node 2 joins.
class KnownAgentsTest : public ::testing::Test {
 protected:
  KnownAgentsTest() {
    ledger_.make_folder();
    datagrams_.connect({datagrams_.address(), ""}, "secret");
  }
  void TearDown() override { fs::remove_all(folder_); }
  LedgerThread::Answer answer() {
    pollfd polled{ledger_thread_.descriptor(), POLLIN, 0};
    EXPECT_EQ(::poll(&polled, 1, 20000), 1);
    return ledger_thread_.poll().value_or(LedgerThread::Answer{});
  }

  fs::path folder_ = fs::path(::testing::TempDir()) / ("known_agents_" + random_hex(8));
  Datagrams datagrams_{"127.0.0.1"}, joined_{"127.0.0.1"};
  Ledger ledger_{folder_};
  LedgerThread ledger_thread_{ledger_};
  KnownAgents agents_{{{"n0", datagrams_.address(), "nonce"}, {"n1", "", ""}}, datagrams_, ledger_thread_};
  Clock::time_point now_{1000s};
};

TEST_F(KnownAgentsTest, ANodeThatJoinsIsReachedOnceItsRecordIsRead) {
  agents_.look_for_joined(3, now_);
  EXPECT_EQ(agents_.host(NodeId(2)), "node 2");
  const auto none = answer();
  EXPECT_EQ(node_of_record(none.name), 2u);
  EXPECT_FALSE(agents_.meet(2, none.text, now_));
  join_nodes(ledger_, 2, {"m2", joined_.address(), ""});
  agents_.look_for_joined(3, now_ + 500ms);
  agents_.look_for_joined(3, now_ + 1s);
  EXPECT_EQ(agents_.meet(2, answer().text, now_ + 1s), "m2");
  EXPECT_FALSE(ledger_thread_.poll()) << "asked once more, not twice";
  EXPECT_EQ(agents_.hosts(), (std::vector<std::string>{"n0", "n1", "m2"}));
  EXPECT_EQ(agents_.hosts({NodeId(2), NodeId(0)}), (std::vector<std::string>{"m2", "n0"}));
  joined_.connect({datagrams_.address()}, "secret");
  datagrams_.send(2, "hello");
  pollfd polled{joined_.descriptor(), POLLIN, 0};
  ASSERT_EQ(::poll(&polled, 1, 20000), 1);
  EXPECT_EQ(joined_.receive(), "hello");
}

TEST_F(KnownAgentsTest, ARecordWithADamagedAddressIsAskedForAgain) {
  agents_.look_for_joined(3, now_);
  answer();
  EXPECT_FALSE(agents_.meet(2, to_text(AgentAddress{"m2", "no address", ""}), now_));
  EXPECT_EQ(agents_.host(NodeId(2)), "node 2");
  agents_.look_for_joined(3, now_ + 1s);
  EXPECT_EQ(node_of_record(answer().name), 2u);
}

TEST_F(KnownAgentsTest, PublishesAllButTheShares) {
  agents_.publish({.id = "ab12", .version = DISTDL_VERSION, .job = "", .arguments = {"job.toml"}}, "secret");
  const auto record = launch_record_from(answer().text.value_or(""), "launch.json");
  EXPECT_EQ(record.secret, "secret");
  ASSERT_EQ(record.agents.size(), 2u);
  EXPECT_EQ(record.agents.front().host, "n0");
  EXPECT_EQ(record.agents.front().nonce, "");
}

}  // namespace
}  // namespace distdl::agent
