// SPDX-License-Identifier: Apache-2.0
#include <thread>

#include <gtest/gtest.h>

#include <distdl/base/conversation.hpp>

namespace distdl {
namespace {
using namespace std::chrono_literals;

TEST(Conversation, GoesLineByLine) {
  Conversation cat({"sed", "-u", "s/^/heard /"}, {});
  EXPECT_TRUE(cat.say("one\ntwo"));
  EXPECT_EQ(cat.hear(10s), "heard one");
  EXPECT_EQ(cat.hear(10s), "heard two");
  EXPECT_EQ(cat.hear(20ms), std::nullopt);
  EXPECT_EQ(cat.finish(10s), 0);
}

TEST(Conversation, EndsWhenTheOtherDoes) {
  Conversation brief({"sh", "-c", "echo $GREETING; exit 7"}, {{"GREETING", "hello"}});
  EXPECT_EQ(brief.hear(10s), "hello");
  EXPECT_EQ(brief.hear(10s), std::nullopt);
  while (brief.say("anyone?")) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(brief.finish(10s), 7);
}

TEST(Conversation, KillsWhoDoesNotEnd) {
  Conversation deaf({"sleep", "1000"}, {});
  EXPECT_EQ(deaf.finish(20ms), 128 + 9);
}
}  // namespace
}  // namespace distdl
