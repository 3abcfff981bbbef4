// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>
#include <sstream>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <distdl/base/processors.hpp>

namespace distdl {
namespace {
using ::testing::ElementsAre;
using ::testing::UnorderedElementsAreArray;

TEST(Processors, AreDividedIntoEqualPartsOfNeighbours) {
  EXPECT_THAT(equal_parts({4, 5, 8, 9, 12}, 2), ElementsAre(ElementsAre(4, 5), ElementsAre(8, 9)));
  EXPECT_THAT(equal_parts({4, 5}, 3), ElementsAre(ElementsAre(), ElementsAre(), ElementsAre()));
}

TEST(Processors, HaveANameOnEachArchitecture) {
  std::istringstream x86("processor\t: 0\nmodel\t\t: 17\nmodel name\t: AMD EPYC 9554\nflags\t\t: fpu vme\n\n");
  EXPECT_EQ(processor_name(x86), "AMD EPYC 9554");
  std::istringstream grace(
      "processor\t: 0\nFeatures\t: fp\nCPU implementer\t: 0x41\nCPU variant\t: 0x0\nCPU part\t: 0xd4f\n");
  EXPECT_EQ(processor_name(grace), "Arm implementer 0x41 part 0xd4f");
  std::istringstream other("processor\t: 0\n");
  EXPECT_EQ(processor_name(other), "unknown");
}

TEST(Processors, AreTheSameByPlace) {
  std::vector<int> some(64);  // also those that this machine has not
  std::iota(some.begin(), some.end(), 0);
  EXPECT_THAT(by_place(some), UnorderedElementsAreArray(some));
}

TEST(Processors, AThreadIsBoundForAWhileWithThoseThatItStarts) {
  const auto all = usable_processors();
  ASSERT_FALSE(all.empty());
  {
    const BoundThread bound({all.back()});
    EXPECT_THAT(usable_processors(), ElementsAre(all.back()));
    std::thread([&] { EXPECT_THAT(usable_processors(), ElementsAre(all.back())); }).join();
    const BoundThread nowhere({});
    EXPECT_THAT(usable_processors(), ElementsAre(all.back()));
  }
  EXPECT_EQ(usable_processors(), all);
  EXPECT_FALSE(bind_this_thread({1023}));
}
}  // namespace
}  // namespace distdl
