// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <distdl/base/errors.hpp>
#include <distdl/base/printable.hpp>

namespace distdl {
namespace {

TEST(Printable, LeavesTextOfAnyLanguageAsItIs) {
  for (const char* text : {"", "step 1/10\t50%", "Grüße, 日本語, עברית, 🙂", "a\\nb"})
    EXPECT_EQ(printable(text), text);
}

TEST(Printable, EscapesWhatEndsALineOrSteersATerminal) {
  EXPECT_EQ(printable("a\nerror b\r"), "a\\nerror b\\r");
  EXPECT_EQ(printable("\x1b[2J\x7f"), "\\x1b[2J\\x7f");
  EXPECT_EQ(printable(std::string_view("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(printable("\u009b31m\u2028\u202egnp.exe"), "\\u009b31m\\u2028\\u202egnp.exe");
}

TEST(Printable, EscapesBytesThatAreNoUtf8) {
  EXPECT_EQ(printable("caf\xe9 ol\xc3\xa9"), "caf\\xe9 olé");
  EXPECT_EQ(printable("\xc3"), "\\xc3");           // cut off
  EXPECT_EQ(printable("\xc0\x8a"), "\\xc0\\x8a");  // a line feed in disguise
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");
}

TEST(IsUtf8, TellsWhatJsonAndTomlCanHold) {
  for (const char* text : {"", "plain\n", "olé", "\U0001F389"}) EXPECT_TRUE(is_utf8(text)) << text;
  for (const char* text : {"caf\xe9", "\xc3", "\xc0\x8a", "\xed\xa0\x80", "a\xff"}) EXPECT_FALSE(is_utf8(text)) << text;
}

TEST(ErrnoText, NeverSaysSuccess) {
  EXPECT_EQ(errno_text(0), "the cause is unknown");
  EXPECT_EQ(errno_text(ENOSPC), "No space left on device (ENOSPC)");
}
}  // namespace
}  // namespace distdl
