// SPDX-License-Identifier: Apache-2.0
#include <thread>

#include <gtest/gtest.h>

#include <distdl/base/line_process.hpp>

namespace distdl {
namespace {
using namespace std::chrono_literals;

TEST(LineProcess, GoesLineByLine) {
  LineProcess cat({"sed", "-u", "s/^/heard /"}, {});
  EXPECT_TRUE(cat.write_line("one\ntwo"));
  EXPECT_EQ(cat.read_line(10s), "heard one");
  EXPECT_EQ(cat.read_line(10s), "heard two");
  EXPECT_EQ(cat.read_line(20ms), std::nullopt);
  EXPECT_EQ(cat.finish(10s), 0);
}

TEST(LineProcess, EndsWhenTheOtherDoes) {
  LineProcess brief({"sh", "-c", "echo $HELLO; exit 7"}, {{"HELLO", "hello"}});
  EXPECT_EQ(brief.read_line(10s), "hello");
  EXPECT_EQ(brief.read_line(10s), std::nullopt);
  while (brief.write_line("anyone?")) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(brief.finish(10s), 7);
}

TEST(LineProcess, KillsWhoDoesNotEnd) {
  LineProcess deaf({"sleep", "1000"}, {});
  EXPECT_EQ(deaf.finish(20ms), 128 + 9);
}
}  // namespace
}  // namespace distdl
