// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <chrono>
#include <cstring>
#include <functional>
#include <thread>

#include <gmock/gmock.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/comm/shm/node_memories.hpp"
#include <distdl/base/file_descriptor.hpp>
#include <distdl/base/process.hpp>

// Ranks as processes: each test forks one other rank and talks to it through pipes.
namespace distdl::comm {
namespace {

constexpr int kWaitMilliseconds = 20000;

struct Pipe {
  FileDescriptor read, write;
  Pipe() {
    std::array<int, 2> ends{-1, -1};
    if (::pipe(ends.data()) != 0) throw std::runtime_error("pipe");
    read.reset(ends[0]);
    write.reset(ends[1]);
  }
};

/// The other process, as both sides see it. Texts are short: one write is one read.
class Peer {
 public:
  Peer(FileDescriptor in, FileDescriptor out) : in_(std::move(in)), out_(std::move(out)) {}
  void write_line(const std::string& text) {
    std::array<char, 128> line{};
    text.copy(line.data(), line.size() - 1);
    if (::write(out_.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size()))
      throw std::runtime_error("the other process is gone");
  }
  std::string read_line() {
    pollfd ready{in_.get(), POLLIN, 0};
    std::array<char, 128> line{};
    if (::poll(&ready, 1, kWaitMilliseconds) != 1 ||
        ::read(in_.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size()))
      throw std::runtime_error("the other process says nothing");
    return line.data();
  }

 private:
  FileDescriptor in_, out_;
};

class ChildProcess {
 public:
  explicit ChildProcess(const std::function<void(Peer&)>& body) : ChildProcess(Pipe(), Pipe(), body) {}
  ~ChildProcess() {
    if (id_ > 0) kill();
  }
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  Peer& peer() { return peer_; }
  void kill() {
    ::kill(id_, SIGKILL);
    wait();
  }
  int wait() {
    int status = 0;
    ::waitpid(std::exchange(id_, 0), &status, 0);
    return exit_code_from_status(status);
  }

 private:
  ChildProcess(Pipe down, Pipe up, const std::function<void(Peer&)>& body)
      : id_(::fork()), peer_(std::move(up.read), std::move(down.write)) {
    if (id_ != 0) return;
    try {
      Peer parent(std::move(down.read), std::move(up.write));
      body(parent);
      ::_exit(0);
    } catch (const std::exception& error) {
      fmt::print(stderr, "child: {}\n", error.what());
      ::_exit(1);
    }
  }

  pid_t id_;
  Peer peer_;
};

void meet(Peer& other) {
  other.write_line("here");
  other.read_line();
}

/// Attaches two processes: `local` is this one's place.
void attach(NodeMemory& memory, int local, Peer& other) {
  other.write_line(memory.name());
  const std::string theirs = other.read_line();
  memory.attach(std::vector<NodeRank>{{Rank(0), local == 0 ? memory.name() : theirs},
                                      {Rank(1), local == 1 ? memory.name() : theirs}});
  meet(other);
}

NodeMemory::Created create_buffer(NodeMemory& memory, std::size_t bytes, Peer& other) {
  auto created = memory.create_buffer(bytes);
  other.write_line(created.segment);
  const std::string theirs = other.read_line();
  memory.attach_buffer(created.id,
                       memory.self() == 0 ? std::array{created.segment, theirs} : std::array{theirs, created.segment});
  meet(other);
  return created;
}

void await(const std::atomic<std::uint64_t>& word, std::uint64_t value) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(kWaitMilliseconds);
  while (word.load(std::memory_order_acquire) != value) {
    if (std::chrono::steady_clock::now() > deadline) throw std::runtime_error("the word never came");
    std::this_thread::yield();
  }
}

TEST(NodeProcesses, SeeEachOthersControlBlocksAndBuffers) {
  const auto before = traces();
  {
    const std::string job = job_of_test();
    ChildProcess child([&](Peer& parent) {
      NodeMemory memory(job);
      attach(memory, 1, parent);
      const auto buffer = create_buffer(memory, 5000, parent);
      std::strcpy(reinterpret_cast<char*>(buffer.data) + 4000, "from the child");
      memory.operand_block(1, 2).output.store(memory.locate(buffer.data + 4000, 100), std::memory_order_relaxed);
      memory.control_block(1, 2).reached.store(77, std::memory_order_release);
      await(memory.control_block(0, 2).reached, 78);
      // The parent wrote into this process's memory.
      if (std::string(reinterpret_cast<char*>(buffer.data) + 4000) != "from the parent") ::_exit(2);
      std::byte elsewhere{};
      if (memory.locate(&elsewhere, 1) != 0) ::_exit(3);
      memory.completed(1).store(1, std::memory_order_release);
    });
    NodeMemory memory(job);
    attach(memory, 0, child.peer());
    const auto buffer = create_buffer(memory, 7000, child.peer());
    EXPECT_EQ(names_of(job), 4);
    memory.unlink();
    memory.unlink_buffer(buffer.id);
    await(memory.control_block(1, 2).reached, 77);
    auto* const text = reinterpret_cast<char*>(memory.resolve(1, memory.operand_block(1, 2).output.load()));
    EXPECT_STREQ(text, "from the child");
    std::strcpy(text, "from the parent");
    memory.control_block(0, 2).reached.store(78, std::memory_order_release);
    await(memory.completed(1), 1);
    EXPECT_EQ(child.wait(), 0);

    std::byte elsewhere{};
    EXPECT_EQ(memory.locate(&elsewhere, 1), 0U) << "not in shared memory";
    EXPECT_NE(memory.locate(buffer.data + 6999, 1), 0U);
    EXPECT_EQ(memory.locate(buffer.data + 8000, 4000), 0U) << "beyond the end";
    EXPECT_EQ(memory.locate(buffer.data - 1, 1), 0U);
    const auto late = memory.create_buffer(10);
    EXPECT_EQ(memory.locate(late.data, 1), 0U) << "not attached yet";
  }
  EXPECT_EQ(names_after_sweep(job_of_test(), 0), 0);  // the child left by _exit
  EXPECT_EQ(traces(), before);
}

TEST(NodeProcesses, ReadTheLossThatADeadRankPosted) {
  for (int local : {0, 1}) {  // the board is the first rank's
    const std::string job = job_of_test();
    ChildProcess child([&](Peer& parent) {
      NodeMemory memory(job);
      attach(memory, local, parent);
      memory.post_loss({Rank(9), 75, "rank 9 on node7 was preempted"});
      parent.write_line("posted");
      parent.read_line();
    });
    NodeMemory memory(job);
    attach(memory, 1 - local, child.peer());
    EXPECT_EQ(child.peer().read_line(), "posted");
    child.kill();
    memory.post_loss({Rank(local), 69, "a consequence"});
    const auto loss = memory.posted_loss();
    ASSERT_TRUE(loss);
    EXPECT_EQ(loss->rank, Rank(9));
    EXPECT_EQ(loss->exit_code, 75);
    EXPECT_EQ(loss->why, "rank 9 on node7 was preempted");
  }
  EXPECT_EQ(names_after_sweep(job_of_test(), 0), 0);
}

/// What a rank does before it is killed.
enum class Phase { created, attached, unlinked, buffer_created, buffer_attached, buffer_unlinked };

class NodeDeath : public testing::TestWithParam<Phase> {};

TEST_P(NodeDeath, LeavesNothingThatASweepDoesNotFind) {
  const auto before = traces();
  const std::string job = job_of_test();
  const Phase phase = GetParam();
  {
    NodeMemory memory(job);
    ChildProcess child([&](Peer& parent) {
      const int killed_here = static_cast<int>(phase);
      NodeMemory mine(job);
      if (killed_here >= static_cast<int>(Phase::attached)) attach(mine, 1, parent);
      if (killed_here >= static_cast<int>(Phase::unlinked)) mine.unlink();
      std::optional<NodeMemory::Created> buffer;
      if (phase == Phase::buffer_created) buffer = mine.create_buffer(100000);
      if (phase > Phase::buffer_created) buffer = create_buffer(mine, 100000, parent);
      if (phase == Phase::buffer_unlinked) mine.unlink_buffer(buffer->id);
      parent.write_line("ready");
      parent.read_line();
    });
    if (phase >= Phase::attached) attach(memory, 0, child.peer());
    NodeMemory::Created buffer{};
    if (phase > Phase::buffer_created) buffer = create_buffer(memory, 1000, child.peer());
    EXPECT_EQ(child.peer().read_line(), "ready");
    const int living = names_of(job);
    NodeMemory::sweep();
    EXPECT_EQ(names_of(job), living) << "both live";
    child.kill();
    const int mine = phase > Phase::buffer_created ? 2 : 1;
    EXPECT_EQ(names_after_sweep(job, mine), mine);
    if (phase > Phase::buffer_created) {  // what the dead rank gave can still be used
      std::byte* const theirs = memory.resolve(1, memory.locate(buffer.data, 1));
      theirs[99999] = std::byte{1};
    }
  }
  EXPECT_EQ(traces(), before);
}

INSTANTIATE_TEST_SUITE_P(Phases, NodeDeath,
                         testing::Values(Phase::created, Phase::attached, Phase::unlinked, Phase::buffer_created,
                                         Phase::buffer_attached, Phase::buffer_unlinked));

}  // namespace
}  // namespace distdl::comm
