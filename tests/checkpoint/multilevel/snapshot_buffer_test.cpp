// SPDX-License-Identifier: Apache-2.0
// Slots: what goes in comes out, also in another process, and what is torn or strange is refused.
#include <fstream>
#include <limits>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>

#include "tests/checkpoint/sample.hpp"
#include <distdl/base/checksum.hpp>
#include <distdl/base/clock.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/checkpoint/commit/finite.hpp>
#include <distdl/checkpoint/snapshot_buffer.hpp>
#include <distdl/checkpoint/snapshot_memory.hpp>

namespace distdl::checkpoint {
namespace {
using testing::HasSubstr;

const std::string& run_name() {
  static const std::string name = "test_" + std::to_string(::getpid());  // of the parent, also in its children
  return name;
}

SnapshotLabel label_of(std::int64_t step, int rank = 1, int world = 2) {
  return {run_name(), rank, world, Step(step), static_cast<std::uint64_t>(step)};
}

std::span<const std::byte> bytes_in(const Slice& slice) {
  return {slice.bytes,
          static_cast<std::size_t>(tensor::element_count(slice.box.extent)) * tensor::size_of(slice.dtype)};
}

/// The empty text if the snapshot is that of this rank's share of the sample.
std::string compare(const Snapshot& snapshot, const Share& share) {
  if (snapshot.state != sample_state()) return "state differs";
  if (snapshot.slices.size() != share.slices.size()) return "another number of slices";
  for (std::size_t i = 0; i < share.slices.size(); ++i) {
    const Slice &found = snapshot.slices[i], &expected = share.slices[i];
    auto bytes = bytes_in(expected);
    bool same = found.name == expected.name && found.dtype == expected.dtype && found.shape == expected.shape &&
                (bytes.empty() || found.box == expected.box) && bytes_in(found).size() == bytes.size() &&
                std::equal(bytes.begin(), bytes.end(), found.bytes);
    if (!same) return expected.name + " differs";
  }
  return "";
}

class SnapshotBufferTest : public testing::Test {
 protected:
  SnapshotBufferTest() { run_name(); }
  void TearDown() override {
    for (const auto& name : buffers_of(run_name())) ::shm_unlink(name.c_str());
  }
  /// Rank 1 of 2's share of a sample whose largest tensor has several blocks.
  Share share_ = share_of(make_sample(1, 200'000), 1, 2);
  SnapshotMemory memory_ = SnapshotMemory::create(run_name(), 1, buffer_bytes(share_.slices, sample_state()));

  void fill(std::int64_t step = 5, const CopyPlan& plan = {}) {
    fill_buffer(memory_.writable(), label_of(step), share_.slices, sample_state(), plan);
  }
  /// How opening and verifying `bytes` fails; ok if it does not.
  static ExitCode outcome(std::span<const std::byte> bytes) {
    try {
      verify(open_snapshot(bytes));
      return ExitCode::ok;
    } catch (const StorageError& error) {
      return error.exit_code();
    }
  }
};

TEST_F(SnapshotBufferTest, GivesBackWhatWasPutIn) {
  for (std::size_t threads : {1, 2, 5}) {
    fill(static_cast<std::int64_t>(threads), {.threads = threads});
    Snapshot snapshot = open_snapshot(memory_.bytes());
    EXPECT_EQ(snapshot.label, label_of(static_cast<std::int64_t>(threads)));
    EXPECT_EQ(compare(snapshot, share_), "");
    EXPECT_NO_THROW(verify(snapshot, threads));
    EXPECT_LE(snapshot.bytes, memory_.bytes().size());
  }
}

TEST_F(SnapshotBufferTest, ChecksumsAreThoseOfTheBlocks) {
  fill();
  Snapshot snapshot = open_snapshot(memory_.bytes());
  std::size_t blocks = 0;
  for (const Slice& slice : snapshot.slices) {
    auto bytes = bytes_in(slice);
    for (std::size_t i = 0; i < slice.checksums.size(); ++i, ++blocks)
      EXPECT_EQ(slice.checksums[i],
                crc32c(bytes.subspan(i << 22, std::min<std::size_t>(4 << 20, bytes.size() - (i << 22)))));
  }
  EXPECT_GT(blocks, snapshot.slices.size() - 2);
}

TEST_F(SnapshotBufferTest, TravelsAsPlainBytes) {
  fill();
  auto sent = memory_.bytes().first(open_snapshot(memory_.bytes()).bytes);
  SnapshotMemory there = SnapshotMemory::create_private(sent.size());
  std::copy(sent.begin(), sent.end(), there.writable().begin());
  Snapshot snapshot = open_snapshot(there.bytes());
  EXPECT_NO_THROW(verify(snapshot));
  EXPECT_EQ(compare(snapshot, share_), "");
  EXPECT_EQ(outcome(sent.first(sent.size() - 1)), ExitCode::corrupt);
}

TEST_F(SnapshotBufferTest, IsReadByAnotherProcessAfterItsMakerWasKilled) {
  int pipe[2];
  ASSERT_EQ(::pipe(pipe), 0);
  pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    SnapshotMemory memory = SnapshotMemory::create(run_name(), 7, buffer_bytes(share_.slices, sample_state()));
    fill_buffer(memory.writable(), label_of(30, 7, 8), share_.slices, sample_state());
    if (::write(pipe[1], "f", 1) != 1) ::_exit(1);
    ::pause();
  }
  char letter = 0;
  EXPECT_EQ(::read(pipe[0], &letter, 1), 1);
  auto names = buffers_of(run_name(), 7);
  EXPECT_EQ(names.size(), 1u);
  EXPECT_EQ(sweep_buffers_of(run_name()), 0);
  EXPECT_EQ(buffers_of(run_name(), 7), names) << "its maker still runs";
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  ::close(pipe[0]);
  ::close(pipe[1]);
  ASSERT_EQ(names.size(), 1u);
  {
    SnapshotMemory found = SnapshotMemory::open(names[0]);
    EXPECT_EQ(sweep_buffers_of(run_name()), 0);
    EXPECT_EQ(buffers_of(run_name(), 7), names) << "somebody has it open";
    Snapshot snapshot = open_snapshot(found.bytes());
    EXPECT_EQ(snapshot.label, label_of(30, 7, 8));
    EXPECT_NO_THROW(verify(snapshot));
    EXPECT_EQ(compare(snapshot, share_), "");
  }
  const std::chrono::hours restart(1);  // never 0 here: other tests' buffers must stay
  sweep_buffers("", restart);
  EXPECT_EQ(buffers_of(run_name(), 7), names) << "its run may be about to restart";
  struct timespec long_ago[2] = {{.tv_sec = whole_seconds_since_1970() - 5000, .tv_nsec = 0},
                                 {.tv_sec = whole_seconds_since_1970() - 5000, .tv_nsec = 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, ("/dev/shm/" + names[0]).c_str(), long_ago, 0), 0);
  sweep_buffers(run_name(), restart);
  EXPECT_EQ(buffers_of(run_name(), 7), names) << "spared";
  sweep_buffers("", restart);
  EXPECT_TRUE(buffers_of(run_name(), 7).empty());
  EXPECT_EQ(buffers_of(run_name(), 1).size(), 1u) << "this process's own";
}

TEST_F(SnapshotBufferTest, OfARankThatIsElsewhereNowTheNodeIsSweptToo) {
  const pid_t child = ::fork();
  if (child == 0) {
    SnapshotMemory memory = SnapshotMemory::create(run_name(), 9, 100);
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(buffers_of(run_name(), 9).size(), 1u);
  EXPECT_EQ(sweep_buffers_of(run_name()), 1);
  EXPECT_EQ(buffers_of(run_name(), 9).size(), 0u);
  EXPECT_EQ(buffers_of(run_name(), 1).size(), 1u) << "this process's own";
}

TEST_F(SnapshotBufferTest, AWriterKilledWhileItFillsLeavesAnEmptySlot) {
  auto bytes = buffer_bytes(share_.slices, sample_state());
  pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    SnapshotMemory memory = SnapshotMemory::create(run_name(), 7, bytes);
    fill_buffer(memory.writable(), label_of(1), share_.slices, sample_state());
    Share broken = share_;  // the copy reaches an address that is not there
    broken.slices.back().bytes =
        static_cast<const std::byte*>(::mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ::signal(SIGSEGV, [](int) { ::kill(::getpid(), SIGKILL); });
    fill_buffer(memory.writable(), label_of(2), broken.slices, sample_state());
    ::_exit(1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  SnapshotMemory found = SnapshotMemory::open(buffers_of(run_name(), 7).at(0));
  EXPECT_EQ(outcome(found.bytes()), ExitCode::incomplete);
}

TEST_F(SnapshotBufferTest, AnEmptyOneIsIncomplete) {
  EXPECT_EQ(outcome(memory_.bytes()), ExitCode::incomplete);
  EXPECT_EQ(outcome({}), ExitCode::incomplete);
  fill();
  EXPECT_EQ(outcome(memory_.bytes()), ExitCode::ok);
  empty_buffer(memory_.writable());
  EXPECT_EQ(outcome(memory_.bytes()), ExitCode::incomplete);
}

TEST_F(SnapshotBufferTest, EveryFlippedBitOfTheHeaderIsSeen) {
  fill();
  auto buffer = memory_.writable();
  for (std::size_t i = 0; i < 160; ++i)
    for (int bit = 0; bit < 8; ++bit) {
      buffer[i] ^= std::byte{1} << bit;
      ExitCode code = outcome(buffer);
      bool in_padding = code == ExitCode::ok;
      EXPECT_TRUE(code == ExitCode::corrupt || code == ExitCode::incomplete || code == ExitCode::incompatible ||
                  (in_padding && i >= 144))
          << "byte " << i;
      buffer[i] ^= std::byte{1} << bit;
    }
  EXPECT_EQ(outcome(buffer), ExitCode::ok);
}

TEST_F(SnapshotBufferTest, FlippedBitsAnywhereAreSeenOrChangeNothing) {
  fill();
  auto buffer = memory_.writable();
  std::size_t used = open_snapshot(buffer).bytes, seen = 0;
  for (std::uint64_t i = 0; i < 300; ++i) {
    auto random = Philox::block(3, 0, i);
    std::size_t at = (std::uint64_t{random[0]} << 16 ^ random[1]) % used;
    auto bit = std::byte{1} << (random[2] % 8);
    buffer[at] ^= bit;
    if (outcome(buffer) == ExitCode::ok)
      EXPECT_EQ(compare(open_snapshot(buffer), share_), "") << "byte " << at;
    else
      ++seen;
    buffer[at] ^= bit;
  }
  EXPECT_GT(seen, 250u);
}

TEST_F(SnapshotBufferTest, ATornCopyIsSeen) {
  fill(5);
  std::vector<std::byte> old(memory_.bytes().begin(), memory_.bytes().end());
  share_ = share_of(make_sample(2, 200'000), 1, 2);
  fill(6);
  std::size_t bytes = open_snapshot(memory_.bytes()).bytes;
  for (std::size_t cut : {std::size_t{100}, std::size_t{4096}, std::size_t{8192}, bytes / 2, bytes - 1}) {
    std::vector<std::byte> torn(memory_.bytes().begin(), memory_.bytes().end());
    std::copy(old.begin() + static_cast<std::ptrdiff_t>(cut), old.end(),
              torn.begin() + static_cast<std::ptrdiff_t>(cut));
    EXPECT_EQ(outcome(torn), ExitCode::corrupt) << "cut at " << cut;
  }
}

TEST_F(SnapshotBufferTest, FailingToFillLeavesItEmpty) {
  fill();
  share_.slices[0].name = "not/../allowed";
  EXPECT_THROW(fill(6), StorageError);
  EXPECT_EQ(outcome(memory_.bytes()), ExitCode::incomplete);
}

TEST_F(SnapshotBufferTest, RefusesValuesThatAreNotFiniteWhenAsked) {
  std::vector<float> values(300'000, 1.5f);
  Slice slice{"parameter/x",
              tensor::DataType::float32,
              {300'000},
              tensor::whole({300'000}),
              reinterpret_cast<const std::byte*>(values.data())};
  SnapshotMemory memory = SnapshotMemory::create_private(buffer_bytes(std::span(&slice, 1), {}));
  auto save = [&](bool finite) {
    fill_buffer(memory.writable(), label_of(1), std::span(&slice, 1), {}, {.finite = finite});
  };
  save(true);
  for (float bad : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(), std::nanf("")})
    for (std::size_t place : {std::size_t{0}, std::size_t{65'537}, values.size() - 1}) {
      values[place] = bad;
      EXPECT_NO_THROW(save(false));
      EXPECT_THROW(save(true), ConfigError) << place;
      values[place] = std::numeric_limits<float>::max();
    }
  save(true);
}

TEST(Finite, KnowsEveryFloatingType) {
  auto bytes = [](auto& value) { return std::as_bytes(std::span(&value, 1)); };
  std::uint16_t half_infinite = 0x7C00, half_largest = 0xFBFF, brain_nan = 0xFF81, brain_largest = 0x7F7F;
  double nan = std::nan(""), large = 1e308;
  EXPECT_FALSE(all_finite(tensor::DataType::float16, bytes(half_infinite)));
  EXPECT_TRUE(all_finite(tensor::DataType::float16, bytes(half_largest)));
  EXPECT_FALSE(all_finite(tensor::DataType::bfloat16, bytes(brain_nan)));
  EXPECT_TRUE(all_finite(tensor::DataType::bfloat16, bytes(brain_largest)));
  EXPECT_FALSE(all_finite(tensor::DataType::float64, bytes(nan)));
  EXPECT_TRUE(all_finite(tensor::DataType::float64, bytes(large)));
  EXPECT_TRUE(all_finite(tensor::DataType::int64, bytes(nan)));
}

TEST_F(SnapshotBufferTest, MemoryIsPrivateToTheUserAndNamed) {
  EXPECT_THAT(memory_.name(),
              testing::MatchesRegex(fmt::format("distdl.slot-{}-{}-1-[0-9a-f]*", ::geteuid(), run_name())));
  struct stat status {};
  ASSERT_EQ(::stat(("/dev/shm/" + memory_.name()).c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  EXPECT_EQ(buffers_of(run_name()), std::vector{memory_.name()});
  EXPECT_TRUE(buffers_of("another").empty());
  memory_.remove();
  EXPECT_TRUE(buffers_of(run_name()).empty());
  fill();  // the memory stays
}

TEST_F(SnapshotBufferTest, WhatIsOpenToOthersIsRefused) {
  ASSERT_EQ(::chmod(("/dev/shm/" + memory_.name()).c_str(), 0644), 0);
  EXPECT_THROW(SnapshotMemory::open(memory_.name()), StorageError);
  EXPECT_THROW(SnapshotMemory::open("passwd"), StorageError);
  EXPECT_THROW(SnapshotMemory::open(fmt::format("distdl.slot-{}-/../x", ::geteuid())), StorageError);
}

TEST_F(SnapshotBufferTest, TooLittleSharedMemoryIsSaidBeforeItIsTaken) {
  struct statvfs status {};
  ASSERT_EQ(::statvfs("/dev/shm", &status), 0);
  if (status.f_blocks == 0) GTEST_SKIP() << "/dev/shm has no limit here";
  std::size_t bytes = status.f_blocks * status.f_frsize;
  try {
    SnapshotMemory::create(run_name(), 3, bytes);
    FAIL() << "there was room for " << bytes;
  } catch (const StorageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("/dev/shm"));
    EXPECT_THAT(error.what(), HasSubstr(std::to_string(bytes)));
  }
  EXPECT_TRUE(buffers_of(run_name(), 3).empty());
}
}  // namespace
}  // namespace distdl::checkpoint
