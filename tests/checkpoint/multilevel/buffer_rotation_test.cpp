// SPDX-License-Identifier: Apache-2.0
// Which slot is filled next: never one that is still of use.
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
constexpr Protection kNone{}, kPartner{true, false, false}, kParity{false, true, false}, kBoth{true, true, false};

class Rotation : public testing::Test {
 protected:
  void TearDown() override {
    for (const auto& name : slots_of(run_)) remove_orphan(name);
  }
  SlotRotation rotation(const std::optional<Protection>& levels) { return {run_, run_, 3, levels}; }
  /// A save as a Saver does it; the name of the slot that it took.
  static std::string save(SlotRotation& slots, const Protection& how = {}) {
    slots.take_next(kBytes);
    slots.sealed();
    slots.kept_elsewhere(how);
    return slots.newest_name();
  }
  std::string run_ = "rotation" + std::to_string(::getpid());
};

TEST_F(Rotation, TheNewestIsNotFilledUntilTheNextIsSealed) {
  auto slots = rotation(std::nullopt);
  EXPECT_EQ(slots.newest_name(), "");
  const auto first = save(slots);
  slots.take_next(kBytes);
  EXPECT_NE(slots.current().name(), first);
  EXPECT_EQ(slots.newest_name(), first);
  slots.take_next(kBytes);  // the copy failed: the same one again
  EXPECT_NE(slots.current().name(), first);
  const auto second = save(slots);
  EXPECT_NE(second, first);
  EXPECT_EQ(save(slots), first);
  EXPECT_EQ(save(slots), second);
}

TEST_F(Rotation, WhatGoesWithCopiesElsewhereStaysUntilTheNextOfItsKind) {
  for (const Protection& how : {kPartner, kParity}) {
    auto slots = rotation(how);
    const auto kept = save(slots, how);
    for (int i = 0; i < 6; ++i) EXPECT_NE(save(slots, kNone), kept);
    EXPECT_NE(save(slots, how), kept);
    std::set<std::string> later;
    for (int i = 0; i < 6; ++i) later.insert(save(slots, kNone));
    EXPECT_TRUE(later.contains(kept)) << "it is not needed any more";
    slots.remove();
  }
}

TEST_F(Rotation, NeitherKindTakesTheSlotOfTheOther) {
  auto slots = rotation(kBoth);
  const auto with_partner = save(slots, kPartner), with_parity = save(slots, kParity);
  EXPECT_NE(with_partner, with_parity);
  for (int i = 0; i < 6; ++i) {
    const auto name = save(slots, kNone);
    EXPECT_NE(name, with_partner);
    EXPECT_NE(name, with_parity);
  }
  const auto both = save(slots, kBoth);
  std::set<std::string> later;
  for (int i = 0; i < 6; ++i) later.insert(save(slots, kNone));
  EXPECT_FALSE(later.contains(both));
  EXPECT_EQ(later.size(), 2U);
  EXPECT_EQ(slots_of(run_).size(), 4U);
}

TEST_F(Rotation, TakesAsMuchMemoryBeforehandAsWillBeInUse) {
  for (const auto& [levels, count] : {std::pair(std::optional<Protection>(), 2U), std::pair(std::optional(kNone), 3U),
                                      std::pair(std::optional(kParity), 3U), std::pair(std::optional(kBoth), 4U)}) {
    auto slots = rotation(levels);
    slots.prepare(kBytes);
    const auto names = slots_of(run_, 3);
    EXPECT_EQ(names.size(), count);
    for (int i = 0; i < 3; ++i) EXPECT_THAT(names, testing::Contains(save(slots)));
    slots.remove();
    EXPECT_TRUE(slots_of(run_).empty());
  }
}

TEST_F(Rotation, ASlotThatIsTooSmallIsReplaced) {
  auto slots = rotation(std::nullopt);
  slots.prepare(kBytes);
  slots.take_next(3 * kBytes);
  EXPECT_GE(slots.current().bytes().size(), 3 * kBytes);
  EXPECT_EQ(slots_of(run_).size(), 2U);
  const auto large = slots.current().name();
  slots.take_next(kBytes);
  EXPECT_EQ(slots.current().name(), large);
}

TEST_F(Rotation, WithoutRoomPrivateMemoryIsTaken) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  auto* handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = kBytes / 2;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  auto slots = rotation(std::nullopt);
  testing::internal::CaptureStderr();
  slots.take_next(kBytes);
  const auto said = testing::internal::GetCapturedStderr();
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_THAT(said, testing::HasSubstr("private memory is taken instead"));
  EXPECT_EQ(slots.current().name(), "");
  EXPECT_GE(slots.current().bytes().size(), kBytes);
  slots.sealed();
  EXPECT_EQ(slots.newest_name(), "");
}

TEST_F(Rotation, AfterItsEndItBeginsAnew) {
  auto slots = rotation(kBoth);
  for (int i = 0; i < 3; ++i) save(slots, kBoth);
  slots.remove();
  slots.release();
  EXPECT_EQ(slots.newest_name(), "");
  EXPECT_TRUE(slots_of(run_).empty());
  EXPECT_NE(save(slots), "");
  EXPECT_EQ(slots_of(run_).size(), 1U);
}

}  // namespace
}  // namespace distdl::checkpoint
