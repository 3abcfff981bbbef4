// SPDX-License-Identifier: Apache-2.0
// Against "scontrol show hostnames": tests/cluster/scheduler_test.py.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <distdl/base/errors.hpp>
#include <distdl/slurm/host_list.hpp>

namespace distdl::slurm {
namespace {
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(HostList, NamesRangesAndNumbers) {
  EXPECT_THAT(expand_host_list("login"), ElementsAre("login"));
  EXPECT_THAT(expand_host_list("n[1-3]"), ElementsAre("n1", "n2", "n3"));
  EXPECT_THAT(expand_host_list("b,n[2,1,4-5],a.b-c_1"), ElementsAre("b", "n2", "n1", "n4", "n5", "a.b-c_1"));
  EXPECT_THAT(expand_host_list("n1,n1"), ElementsAre("n1", "n1"));
}

TEST(HostList, KeepsLeadingZeros) {
  EXPECT_THAT(expand_host_list("n[007-010]"), ElementsAre("n007", "n008", "n009", "n010"));
  EXPECT_THAT(expand_host_list("n[08-10,1]"), ElementsAre("n08", "n09", "n10", "n1"));
  EXPECT_THAT(expand_host_list("n[9-011]"), ElementsAre("n9", "n10", "n11")) << "the first number decides";
}

TEST(HostList, SeveralBracketsAndSuffixes) {
  EXPECT_THAT(expand_host_list("rack[0-1]-n[1-2]ib,x"),
              ElementsAre("rack0-n1ib", "rack0-n2ib", "rack1-n1ib", "rack1-n2ib", "x"));
  EXPECT_THAT(expand_host_list("a[1,2][3].eu"), ElementsAre("a13.eu", "a23.eu"));
}

TEST(HostList, RefusesWhatIsNone) {
  for (const char* text : {"",      ",",      "a,",       ",a",     "a,,b",     "n[",     "n]",
                           "n[1",   "n1]",    "n[1-2]]",  "n[[1]]", "n[]",      "n[1,]",  "n[-1]",
                           "n[1-]", "n[2-1]", "n[1-2-3]", "n[a-b]", "n[1 - 2]", "n[0x1]", "-n",
                           "n 1",   "n;1",    "n$(id)",   "n/1",    "n\n",      "(null)", "n[1234567890123456789]"})
    EXPECT_THROW(expand_host_list(text), SchedulerError) << text;
}

TEST(HostList, HasALimit) {
  EXPECT_EQ(expand_host_list("n[0-65535]").size(), 65536u);
  const auto too_many = ThrowsMessage<SchedulerError>(HasSubstr("more names"));
  EXPECT_THAT([] { expand_host_list("n[0-65536]"); }, too_many);
  EXPECT_THAT([] { expand_host_list("n[0-65535],m"); }, too_many);
  EXPECT_THAT([] { expand_host_list("n[0-999][0-999][0-999]"); }, too_many);
  EXPECT_THAT([] { expand_host_list("n[0-999999999999999999]"); }, too_many);
  std::string deep = "n";
  for (int i = 0; i < 100'000; ++i) deep += "[1]";
  EXPECT_THROW(expand_host_list(deep), SchedulerError);
  EXPECT_THROW(expand_host_list(std::string(300, 'n')), SchedulerError);
  EXPECT_THROW(expand_host_list(std::string(2 << 20, ',')), SchedulerError);
}
}  // namespace
}  // namespace distdl::slurm
