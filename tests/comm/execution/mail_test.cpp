// SPDX-License-Identifier: Apache-2.0
// Short messages in a node's memory, and the order of all messages.
#include <algorithm>
#include <atomic>
#include <deque>
#include <thread>

#include <gmock/gmock.h>

#include "tests/comm/shm/node_memories.hpp"
#include <distdl/comm/execution/mail.hpp>

namespace distdl::comm {
namespace {

using Bytes = std::vector<std::byte>;

class TestLetter final : public Letter {
 public:
  TestLetter(int the_peer, std::uint32_t the_tag, Bytes the_text) : text(std::move(the_text)) {
    peer = the_peer;
    tag = the_tag;
    bytes = text;
  }
  Bytes text;
  bool posted = false;

 private:
  void on_posted() override { posted = true; }
};

Bytes text(std::size_t size, int seed) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7 + static_cast<std::size_t>(seed));
  return bytes;
}

/// Of two ranks in one thread.
struct TwoRanks {
  std::vector<std::unique_ptr<NodeMemory>> memories = attached_memories(2);
  Mail first{*memories[0]}, second{*memories[1]};
};

TEST(Mail, GoesRoundItsSlotsAndDataWithMessagesOfAllLengths) {
  TwoRanks ranks;
  for (int i = 0; i < 5 * static_cast<int>(Mailbox::kSlots); ++i)
    for (std::size_t size : {std::size_t{0}, std::size_t{1}, Mailbox::kInSlot, Mailbox::kInSlot + 1, std::size_t{3000},
                             Mailbox::kMostBytes}) {
      TestLetter sent(1, 7, text(size, i)), received(0, 7, Bytes(size));
      ranks.first.send(sent);
      EXPECT_TRUE(sent.posted && !sent.waits);
      ranks.second.receive(received);
      EXPECT_TRUE(ranks.second.poll(0));
      EXPECT_FALSE(received.waits);
      EXPECT_EQ(received.text, sent.text);
    }
  EXPECT_FALSE(ranks.second.poll_all());
}

TEST(Mail, AnAnswerAcknowledgesSoThatDataBeginAnewAtTheSamePlace) {
  TwoRanks ranks;
  for (int i = 0; i < 3 * static_cast<int>(Mailbox::kSlots); ++i) {
    TestLetter sent(1, 7, text(3000, i)), received(0, 7, Bytes(3000)), answer(0, 7, text(1, i)), got(1, 7, Bytes(1));
    ranks.second.receive(received);
    ranks.first.receive(got);
    ranks.first.send(sent);
    EXPECT_EQ(ranks.memories[0]->mailbox(0, 1).slots[i % Mailbox::kSlots].place, 0U);
    ranks.second.poll(0);
    ranks.second.send(answer);
    ranks.first.poll(1);
    EXPECT_FALSE(sent.waits || received.waits || answer.waits || got.waits);
    EXPECT_EQ(received.text, sent.text);
  }
}

TEST(Mail, AnOldAcknowledgementMakesNoRoom) {
  TwoRanks ranks;
  std::deque<TestLetter> sent, received;
  const auto send = [&] { ranks.first.send(sent.emplace_back(1, 7, text(1, 1))); };
  const auto receive = [&] { ranks.second.receive(received.emplace_back(0, 7, Bytes(1))); };
  TestLetter answer(0, 7, text(1, 2)), got(1, 7, Bytes(1));
  ranks.first.receive(got);
  receive(), send();
  ranks.second.poll(0);
  ranks.second.send(answer);  // acknowledges one
  for (std::size_t i = 1; i < Mailbox::kSlots; ++i) receive(), send();
  ranks.second.poll(0);
  send();  // there is room only because this rank looks how many were taken
  EXPECT_FALSE(sent.back().waits);
  ranks.first.poll(1);
  EXPECT_FALSE(got.waits);
  for (std::size_t i = 1; i < Mailbox::kSlots; ++i) send();
  EXPECT_FALSE(sent.back().waits);
  send();
  EXPECT_TRUE(sent.back().waits);
}

TEST(Mail, AMessageWaitsForRoomForItsData) {
  TwoRanks ranks;
  std::deque<TestLetter> sent, received;
  for (std::size_t size : {Mailbox::kMostBytes, std::size_t{3000}, Mailbox::kMostBytes, std::size_t{1}})
    ranks.first.send(sent.emplace_back(1, 7, text(size, 1)));
  EXPECT_FALSE(sent[1].waits);
  EXPECT_TRUE(sent[2].waits && sent[3].waits) << "there is no room in one piece, and the order counts";
  for (const TestLetter& letter : sent) {
    ranks.second.receive(received.emplace_back(0, 7, Bytes(letter.text.size())));
    ranks.second.poll_all();
    ranks.first.poll_all();
    EXPECT_FALSE(received.back().waits);
    EXPECT_EQ(received.back().text, letter.text);
  }
}

TEST(Mail, AFullMailboxHoldsTheNextOnesBackInOrder) {
  TwoRanks ranks;
  constexpr int kMessages = 3 * static_cast<int>(Mailbox::kSlots);
  std::deque<TestLetter> sent, received;
  for (int i = 0; i < kMessages; ++i) ranks.first.send(sent.emplace_back(1, 7, text(10, i)));
  EXPECT_FALSE(sent[Mailbox::kSlots - 1].waits);
  EXPECT_TRUE(sent[Mailbox::kSlots].waits);
  EXPECT_FALSE(ranks.first.poll_all()) << "nobody has taken one";
  ranks.first.cancel(sent[Mailbox::kSlots + 1], false);
  for (int i = 0; i < kMessages - 1; ++i) ranks.second.receive(received.emplace_back(0, 7, Bytes(10)));
  for (int round = 0; round < 3; ++round) {
    EXPECT_TRUE(ranks.second.poll_all());
    EXPECT_EQ(ranks.first.poll_all(), round < 2);
  }
  sent.erase(sent.begin() + Mailbox::kSlots + 1);
  for (int i = 0; i < kMessages - 1; ++i) {
    EXPECT_FALSE(sent[i].waits || received[i].waits);
    EXPECT_EQ(received[i].text, sent[i].text);
  }
}

TEST(Mail, ATagIsMatchedInOrderWhateverComesBetween) {
  TwoRanks ranks;
  std::deque<TestLetter> sent, received;
  for (int i = 0; i < 6; ++i) ranks.first.send(sent.emplace_back(1, i % 2, text(4, i)));
  ranks.second.receive(received.emplace_back(0, 1, Bytes(4)));
  ranks.second.poll_all();
  for (int i = 1; i < 3; ++i) ranks.second.receive(received.emplace_back(0, 1, Bytes(4)));
  for (int i = 0; i < 3; ++i) ranks.second.receive(received.emplace_back(0, 0, Bytes(4)));
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(received[i].text, sent[2 * i + 1].text);
    EXPECT_EQ(received[3 + i].text, sent[2 * i].text);
  }
}

TEST(Mail, OfALongMessageItHasThePlaceAndTheLength) {
  TwoRanks ranks;
  const std::size_t size = Mailbox::kMostBytes + 1;
  TestLetter sent(1, 7, text(size, 1)), other(1, 7, text(8, 2));
  ranks.first.send(sent);
  ranks.first.send(other);
  EXPECT_TRUE(sent.posted) << "now UCX may begin";
  TestLetter received(0, 7, Bytes(size)), again(0, 7, Bytes(size)), too_long(0, 7, Bytes(9));
  ranks.second.receive(received);
  ranks.second.poll_all();
  EXPECT_FALSE(received.waits || received.other_size);
  EXPECT_EQ(received.text, Bytes(size)) << "its bytes come by UCX";
  ranks.second.cancel(received, false);
  ranks.second.receive(again);
  EXPECT_FALSE(again.waits || again.other_size) << "UCX still has the message of the cancelled receive";
  ranks.second.receive(too_long);
  EXPECT_EQ(too_long.other_size, 8U);
}

TEST(Mail, ACancelledReceiveTakesALongMessageWithItThatUcxHasGivenIt) {
  TwoRanks ranks;
  const std::size_t size = Mailbox::kMostBytes + 1;
  TestLetter sent(1, 7, text(size, 1)), other(1, 7, text(8, 2)), received(0, 7, Bytes(size)), next(0, 7, Bytes(8));
  ranks.second.receive(received);
  ranks.first.send(sent);
  ranks.first.send(other);
  ranks.second.cancel(received, true);
  ranks.second.receive(next);
  EXPECT_EQ(next.text, other.text);
}

TEST(Mail, ThreeRanksThatAreThreadsExchangeManyMessages) {
  constexpr int kRanks = 3, kMessages = 2000;
  const auto memories = attached_memories(kRanks);
  std::atomic<int> wrong = 0;
  std::vector<std::jthread> threads;
  for (int self = 0; self < kRanks; ++self)
    threads.emplace_back([&, self] {
      Mail mail(*memories[self]);
      for (int i = 0; i < kMessages; ++i) {
        const auto length = static_cast<std::size_t>(i) * 37 % (Mailbox::kMostBytes + 1);
        std::deque<TestLetter> out, in;
        for (int other = 0; other < kRanks; ++other) {
          if (other == self) continue;
          mail.send(out.emplace_back(other, 5, text(length, i + self)));
          mail.receive(in.emplace_back(other, 5, Bytes(length)));
        }
        const auto is_open = [](const TestLetter& letter) { return letter.waits; };
        while (std::ranges::any_of(out, is_open) || std::ranges::any_of(in, is_open))
          if (!mail.poll_all()) std::this_thread::yield();
        for (const TestLetter& letter : in) wrong += letter.text != text(length, i + letter.peer);
      }
    });
  threads.clear();
  EXPECT_EQ(wrong, 0);
}

TEST(Mail, RanksBeyondTheMailboxesHaveNone) {
  const auto memories = attached_memories(RankArea::kMailboxes + 1);
  const Mail first(*memories.front()), last(*memories.back());
  EXPECT_TRUE(first.reaches(0) && first.reaches(RankArea::kMailboxes - 1));
  EXPECT_FALSE(first.reaches(-1) || first.reaches(RankArea::kMailboxes) || last.reaches(0));
}

}  // namespace
}  // namespace distdl::comm
