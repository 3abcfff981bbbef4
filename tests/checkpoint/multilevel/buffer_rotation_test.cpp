// SPDX-License-Identifier: Apache-2.0
// Which buffer is filled next: never one that is still of use.
#include <csignal>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <distdl/checkpoint/multilevel/buffer_rotation.hpp>

namespace distdl::checkpoint {
namespace {
constexpr std::size_t kBytes = 8192;
const Protection kNone, kPartner{"partner"}, kParity{"parity"}, kBoth{"partner", "parity"};

class Rotation : public testing::Test {
 protected:
  void TearDown() override {
    for (const auto& name : buffers_of(run_)) remove_orphan(name);
  }
  BufferRotation rotation(const std::optional<Protection>& levels) { return {run_, run_, 3, levels}; }
  /// A save as a Saver does it; the name of the buffer that it took.
  static std::string save(BufferRotation& buffers, const Protection& how = {}) {
    buffers.take_next(kBytes);
    buffers.sealed();
    buffers.kept_elsewhere(how);
    return buffers.newest_name();
  }
  std::string run_ = "rotation" + std::to_string(::getpid());
};

TEST_F(Rotation, TheNewestIsNotFilledUntilTheNextIsSealed) {
  auto buffers = rotation(std::nullopt);
  EXPECT_EQ(buffers.newest_name(), "");
  const auto first = save(buffers);
  buffers.take_next(kBytes);
  EXPECT_NE(buffers.current().name(), first);
  EXPECT_EQ(buffers.newest_name(), first);
  buffers.take_next(kBytes);  // the copy failed: the same one again
  EXPECT_NE(buffers.current().name(), first);
  const auto second = save(buffers);
  EXPECT_NE(second, first);
  EXPECT_EQ(save(buffers), first);
  EXPECT_EQ(save(buffers), second);
}

TEST_F(Rotation, WhatGoesWithCopiesElsewhereStaysUntilTheNextOfItsKind) {
  for (const Protection& how : {kPartner, kParity}) {
    auto buffers = rotation(how);
    const auto kept = save(buffers, how);
    for (int i = 0; i < 6; ++i) EXPECT_NE(save(buffers, kNone), kept);
    EXPECT_NE(save(buffers, how), kept);
    std::set<std::string> later;
    for (int i = 0; i < 6; ++i) later.insert(save(buffers, kNone));
    EXPECT_TRUE(later.contains(kept)) << "it is not needed any more";
    buffers.remove();
  }
}

TEST_F(Rotation, NeitherKindTakesTheSlotOfTheOther) {
  auto buffers = rotation(kBoth);
  const auto with_partner = save(buffers, kPartner), with_parity = save(buffers, kParity);
  EXPECT_NE(with_partner, with_parity);
  for (int i = 0; i < 6; ++i) {
    const auto name = save(buffers, kNone);
    EXPECT_NE(name, with_partner);
    EXPECT_NE(name, with_parity);
  }
  const auto both = save(buffers, kBoth);
  std::set<std::string> later;
  for (int i = 0; i < 6; ++i) later.insert(save(buffers, kNone));
  EXPECT_FALSE(later.contains(both));
  EXPECT_EQ(later.size(), 2U);
  EXPECT_EQ(buffers_of(run_).size(), 4U);
}

TEST_F(Rotation, TakesAsMuchMemoryBeforehandAsWillBeInUse) {
  for (const auto& [levels, count] : {std::pair(std::optional<Protection>(), 2U), std::pair(std::optional(kNone), 3U),
                                      std::pair(std::optional(kParity), 3U), std::pair(std::optional(kBoth), 4U)}) {
    auto buffers = rotation(levels);
    buffers.prepare(kBytes);
    buffers.await_preparation();
    const auto names = buffers_of(run_, 3);
    EXPECT_EQ(names.size(), count);
    for (int i = 0; i < 3; ++i) EXPECT_THAT(names, testing::Contains(save(buffers)));
    buffers.remove();
    EXPECT_TRUE(buffers_of(run_).empty());
  }
}

TEST_F(Rotation, ASlotThatIsTooSmallIsReplaced) {
  auto buffers = rotation(std::nullopt);
  buffers.prepare(kBytes);
  buffers.await_preparation();
  buffers.take_next(3 * kBytes);
  EXPECT_GE(buffers.current().bytes().size(), 3 * kBytes);
  EXPECT_EQ(buffers_of(run_).size(), 2U);
  const auto large = buffers.current().name();
  buffers.take_next(kBytes);
  EXPECT_EQ(buffers.current().name(), large);
}

TEST_F(Rotation, WithoutRoomPrivateMemoryIsTaken) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  auto* handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = kBytes / 2;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  auto buffers = rotation(std::nullopt);
  testing::internal::CaptureStderr();
  buffers.take_next(kBytes);
  const auto said = testing::internal::GetCapturedStderr();
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_THAT(said, testing::HasSubstr("private memory is used instead"));
  EXPECT_EQ(buffers.current().name(), "");
  EXPECT_GE(buffers.current().bytes().size(), kBytes);
  buffers.sealed();
  EXPECT_EQ(buffers.newest_name(), "");
}

TEST_F(Rotation, AfterItsEndItBeginsAnew) {
  auto buffers = rotation(kBoth);
  for (int i = 0; i < 3; ++i) save(buffers, kBoth);
  buffers.remove();
  buffers.release();
  EXPECT_EQ(buffers.newest_name(), "");
  EXPECT_TRUE(buffers_of(run_).empty());
  EXPECT_NE(save(buffers), "");
  EXPECT_EQ(buffers_of(run_).size(), 1U);
}

}  // namespace
}  // namespace distdl::checkpoint
