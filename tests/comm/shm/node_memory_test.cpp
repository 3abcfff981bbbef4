// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <filesystem>
#include <thread>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "tests/comm/shm/node_memories.hpp"
#include <distdl/base/errors.hpp>
#include <distdl/base/file_descriptor.hpp>
#include <distdl/comm/shm/shared_segment.hpp>

namespace distdl::comm {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(NodeMemory, NameTellsUserAndJobAndIsThisUsersAlone) {
  const NodeMemory memory("a/b c");
  EXPECT_THAT(memory.name(), testing::MatchesRegex(fmt::format("distdl-{}-a_b_c-[0-9a-f]*", ::geteuid())));
  struct stat status {};
  ASSERT_EQ(::stat(("/dev/shm/" + memory.name()).c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);
  EXPECT_GE(static_cast<std::size_t>(status.st_blocks) * 512, sizeof(RankArea)) << "reserved";
}

TEST(NodeMemory, ThreadsShareOneMapping) {
  const auto before = traces();
  {
    const auto memories = attached_memories(3);
    EXPECT_EQ(traces().maps, before.maps + 3);
    for (int slot = 0; slot < NodeMemory::kControlBlocks; ++slot)
      for (int local = 0; local < 3; ++local)
        for (const auto& memory : memories)
          EXPECT_EQ(&memory->control_block(local, slot), &memories[0]->control_block(local, slot));
    for (int local = 0; local < 3; ++local) {
      EXPECT_EQ(memories[local]->self(), local);
      EXPECT_EQ(memories[local]->rank_of(2), Rank(20));
      EXPECT_EQ(&memories[local]->completed(1), &memories[0]->completed(1));
    }
  }
  EXPECT_EQ(traces(), before);
}

// Ranks that are threads may have met in a folder, which the thread sanitizer does not take for synchronization.
TEST(NodeMemory, WhoeverAttachesSeesWhatTheOthersHaveWrittenAtTheStart) {
  const std::string job = job_of_test() + "met";
  std::atomic<bool> met = false;
  std::atomic<bool> attached = false;
  std::jthread other([&] {
    const NodeMemory memory(job);
    met.store(true, std::memory_order_relaxed);
    while (!attached.load(std::memory_order_relaxed)) std::this_thread::yield();
  });
  while (!met.load(std::memory_order_relaxed)) std::this_thread::yield();
  std::string name;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm"))
    if (entry.path().filename().string().find("-" + job + "-") != std::string::npos) name = entry.path().filename();
  NodeMemory memory(job);
  EXPECT_NO_THROW(memory.attach(std::vector<NodeRank>{{Rank(0), memory.name()}, {Rank(1), name}}));
  attached.store(true, std::memory_order_relaxed);
}

TEST(NodeMemory, HotWordsOfDifferentOwnersShareNoLine) {
  const auto memories = attached_memories(2);
  const auto line = [](const void* address) { return reinterpret_cast<std::uintptr_t>(address) / 128; };
  const ControlBlock& control_block = memories[0]->control_block(0, 0);
  EXPECT_EQ(line(&control_block.reached), line(&control_block.payload[39]));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(&control_block.reached) / 64,
            reinterpret_cast<std::uintptr_t>(&control_block.payload[39]) / 64);
  EXPECT_NE(line(&control_block), line(&memories[0]->completed(0)));
  EXPECT_NE(line(&control_block), line(&memories[0]->control_block(0, 1)));
  EXPECT_NE(line(&control_block), line(&memories[0]->control_block(1, 0)));
}

TEST(NodeMemory, ThreadsSeeEachOthersPayloads) {
  constexpr int kRanks = 3;
  constexpr std::uint64_t kOperations = 200;
  const auto memories = attached_memories(kRanks);
  std::vector<std::jthread> threads;
  std::atomic<int> wrong = 0;
  for (int self = 0; self < kRanks; ++self)
    threads.emplace_back([&, self] {
      const NodeMemory& memory = *memories[self];
      for (std::uint64_t operation = 1; operation <= kOperations; ++operation) {
        const int slot = operation % NodeMemory::kControlBlocks;
        for (int local = 0; local < kRanks; ++local)  // the control blocks of this slot are free
          while (memory.completed(local).load(std::memory_order_acquire) + NodeMemory::kControlBlocks < operation)
            std::this_thread::yield();
        ControlBlock& control_block = memory.control_block(self, slot);
        const std::uint64_t value = operation * 10 + self;
        std::memcpy(control_block.payload, &value, sizeof value);
        control_block.reached.store(operation, std::memory_order_release);
        for (int local = 0; local < kRanks; ++local) {
          ControlBlock& other = memory.control_block(local, slot);
          while (other.reached.load(std::memory_order_acquire) < operation) std::this_thread::yield();
          std::uint64_t seen = 0;
          std::memcpy(&seen, other.payload, sizeof seen);
          if (seen != operation * 10 + local) ++wrong;
        }
        memory.completed(self).store(operation, std::memory_order_release);
      }
    });
  threads.clear();
  EXPECT_EQ(wrong, 0);
}

TEST(NodeMemory, OfMemoryThatMayGoThreadsLendNothing) {
  const auto memories = attached_memories(2);
  std::vector<std::byte> heap(100);
  EXPECT_EQ(memories[0]->locate(heap.data() + 7, 93), 0U);
}

TEST(NodeMemory, BuffersAreOneMemoryAndAllGoes) {
  const auto before = traces();
  {
    auto memories = attached_memories(2);
    const auto a = memories[0]->create_buffer(10000), b = memories[1]->create_buffer(20000);
    EXPECT_EQ(a.id, b.id);
    EXPECT_EQ(traces().names, before.names + 2);
    const std::vector<std::string> names{a.segment, b.segment};
    for (auto& memory : memories) memory->attach_buffer(a.id, names);
    for (auto& memory : memories) memory->unlink_buffer(a.id);
    EXPECT_EQ(traces().names, before.names);
    EXPECT_EQ(traces().descriptors, before.descriptors);
    EXPECT_EQ(memories[1]->resolve(0, memories[0]->locate(a.data + 5, 3)), a.data + 5);
    memories[0]->release_buffer(a.id);
    EXPECT_EQ(traces().maps, before.maps + 4) << "the other rank may still be reading";
    memories[1]->release_buffer(a.id);
    memories[1]->release_buffer(a.id);
    EXPECT_EQ(traces().maps, before.maps + 2);
    const auto c = memories[0]->create_buffer(0);  // never attached
    EXPECT_GT(c.id, a.id);
  }
  EXPECT_EQ(traces(), before);
}

TEST(NodeMemory, SaysHowMuchItLacksRoomFor) {
  struct statvfs status {};
  ASSERT_EQ(::statvfs("/dev/shm", &status), 0);
  if (status.f_blocks == 0) GTEST_SKIP() << "/dev/shm has no limit here";
  const auto before = traces();
  const std::size_t bytes = status.f_blocks * status.f_bsize;
  NodeMemory memory(job_of_test());
  EXPECT_THAT([&] { memory.create_buffer(bytes); },
              ThrowsMessage<CommError>(
                  testing::AllOf(HasSubstr("/dev/shm"), HasSubstr(std::to_string(bytes)), HasSubstr("ENOSPC"))));
  memory.unlink();
  EXPECT_EQ(traces().names, before.names);
  EXPECT_EQ(traces().descriptors, before.descriptors);
  EXPECT_EQ(traces().maps, before.maps + 1);
}

TEST(NodeMemory, RefusesWhatIsNotItsOwn) {
  const auto before = traces();
  {
    NodeMemory memory(job_of_test());
    const auto attach_with = [&](const std::string& segment) {
      memory.attach(std::vector<NodeRank>{{Rank(3), memory.name()}, {Rank(4), segment}});
    };
    const std::string missing = memory.name() + "x";
    EXPECT_THAT([&] { attach_with(missing); },
                ThrowsMessage<CommError>(testing::AllOf(HasSubstr("rank 4"), HasSubstr(missing), HasSubstr("ENOENT"))));
    EXPECT_THROW(attach_with("/etc/passwd"), CommError);
    EXPECT_THROW(attach_with(memory.name() + "/../x"), CommError);

    const std::string foreign = memory.name() + "y";
    const FileDescriptor file(::shm_open(foreign.c_str(), O_CREAT | O_EXCL | O_RDWR, 0600));
    ASSERT_EQ(::ftruncate(file.get(), sizeof(RankArea)), 0);
    EXPECT_THAT([&] { attach_with(foreign); }, ThrowsMessage<CommError>(HasSubstr("version")));
    ASSERT_EQ(::fchmod(file.get(), 0640), 0);
    EXPECT_THAT([&] { attach_with(foreign); }, ThrowsMessage<CommError>(HasSubstr("other users")));
    ::shm_unlink(foreign.c_str());
    EXPECT_EQ(memory.size(), 0) << "a failed attach() changes nothing";
  }
  EXPECT_EQ(traces(), before);
}

TEST(NodeMemory, FirstLossWinsAndIsWhole) {
  for (int round = 0; round < 20; ++round) {
    const auto memories = attached_memories(4);
    for (const auto& memory : memories) EXPECT_FALSE(memory->posted_loss());
    std::vector<std::jthread> threads;
    std::vector<std::optional<NodeLoss>> seen(8);
    for (int i = 0; i < 8; ++i)  // two per rank: a detector and an owner
      threads.emplace_back([&, i] {
        memories[i / 2]->post_loss({Rank(i), 100 + i, std::string(10 + 50 * i, static_cast<char>('a' + i))});
        while (!seen[i]) seen[i] = memories[i / 2]->posted_loss();
      });
    threads.clear();
    for (const auto& loss : seen) {
      const int i = loss->rank.value;
      EXPECT_EQ(loss->rank, seen[0]->rank);
      EXPECT_EQ(loss->exit_code, 100 + i);
      EXPECT_EQ(loss->why, std::string(std::min(10 + 50 * i, 239), static_cast<char>('a' + i)));
    }
  }
}

TEST(NodeMemory, DoesNotBelieveWhatStandsOnTheBoard) {
  const auto memories = attached_memories(2);
  auto* const first =
      reinterpret_cast<RankArea*>(reinterpret_cast<char*>(&memories[0]->completed(0)) - offsetof(RankArea, completed));
  memories[0]->post_loss({Rank(0), 69, "lost"});
  std::memset(first->loss.why, 'x', sizeof first->loss.why);
  EXPECT_EQ(memories[1]->posted_loss()->why, std::string(sizeof first->loss.why, 'x'));
  first->board = 3;
  EXPECT_FALSE(memories[1]->posted_loss()) << "of two ranks there is no third";
}

TEST(NodeMemory, OtherRanksSeeWhomARankWaitsForAndThatItIsAlive) {
  const auto memories = attached_memories(3);
  EXPECT_FALSE(memories[1]->shown_wait(Rank(0))) << "none yet";
  EXPECT_FALSE(memories[1]->shown_wait(Rank(5))) << "not a rank of this node";
  std::atomic<bool> over = false;
  std::jthread writer([&] {
    for (std::uint32_t i = 0; !over; ++i) {
      if (i % 2 == 0)
        memories[0]->show_wait(Rank(20), {"all-reduce", 1'234'567'890});
      else
        memories[0]->show_wait(std::nullopt, {"an operation of such a long name that it is cut off", i});
    }
  });
  std::uint64_t last = 0;
  for (int seen = 0; seen < 10'000;) {
    const auto wait = memories[1]->shown_wait(Rank(0));
    if (!wait || wait->looks == last) continue;
    ++seen;
    EXPECT_GT(wait->looks, last);
    last = wait->looks;
    EXPECT_EQ(wait->operation, wait->awaited ? "all-reduce 1234567890" : "an operation of such a long nam");
    if (wait->awaited) {
      EXPECT_EQ(*wait->awaited, Rank(20));
    }
  }
  over = true;
}

TEST(NodeMemory, SweepSparesWhatIsBeingCreated) {
  std::jthread sweeper([](const std::stop_token& stop) {
    while (!stop.stop_requested()) NodeMemory::sweep();
  });
  for (int i = 0; i < 200; ++i) {
    const auto segment = SharedSegment::create("race", 100);
    ASSERT_EQ(SharedSegment::open(segment->name(), SharedSegment::Mapping::lazy), segment);
    ASSERT_TRUE(std::filesystem::exists("/dev/shm/" + segment->name()));
  }
}

}  // namespace
}  // namespace distdl::comm
