// SPDX-License-Identifier: Apache-2.0
#include <regex>
#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <distdl/base/console.hpp>
#include <distdl/base/file_descriptor.hpp>
#include <distdl/base/work_progress.hpp>

namespace distdl {
namespace {

TEST(Lines, AreBrokenAtSpaces) {
  EXPECT_EQ(wrapped("one two three", 80, 2), "one two three");
  EXPECT_EQ(wrapped("one two three", 8, 2), "one two\n  three");
  EXPECT_EQ(wrapped("one  two", 6, 0), "one\ntwo");
  EXPECT_EQ(wrapped("a averylongword b", 6, 2), "a\n  averylongword\n  b");
  EXPECT_EQ(wrapped("ä ö ü", 3, 0), "ä ö\nü");
  EXPECT_EQ(wrapped("name        a value of words", 20, 12), "name        a value\n            of words");
  for (const int columns : {0, -1, 2}) EXPECT_EQ(wrapped("one two three", columns, 2), "one two three");
  EXPECT_EQ(wrapped("", 10, 2), "");
}

/// A terminal of 40 columns, and what is shown on it.
class ConsoleOn : public testing::Test {
 protected:
  ConsoleOn() {
    int leader = -1, follower = -1;
    winsize size{};
    size.ws_col = 40;
    EXPECT_EQ(::openpty(&leader, &follower, nullptr, nullptr, &size), 0);
    leader_ = FileDescriptor(leader);
    follower_ = FileDescriptor(follower);
    ::setenv("TERM", "xterm", 1);
    ::setenv("LC_ALL", "C.UTF-8", 1);
    ::unsetenv("NO_COLOR");
  }
  /// What was shown until `awaited` was, and whatever follows at once. The kernel hands it over a little later than it
  /// is written.
  std::string shown(const std::string& awaited = "") {
    constexpr int kFollows = 200, kPatience = 20'000;  // ms
    std::string all;
    const auto pause = [&] { return all.find(awaited) == std::string::npos ? kPatience : kFollows; };
    for (pollfd polled{leader_.get(), POLLIN, 0}; ::poll(&polled, 1, pause()) > 0;) {
      char text[4096];
      const auto bytes = ::read(leader_.get(), text, sizeof text);
      if (bytes <= 0) break;
      all.append(text, static_cast<std::size_t>(bytes));
      if (!awaited.empty() && pause() == kFollows) break;
    }
    return all;
  }
  FileDescriptor leader_, follower_;
};

TEST_F(ConsoleOn, LinesTakeThePlaceOfTheStatus) {
  const Console console(follower_.get());
  EXPECT_TRUE(console.is_terminal());
  EXPECT_EQ(console.width(), 40);
  console.status("half");
  console.line("done");
  console.status(std::string(60, 'x'));
  console.clear_status();
  EXPECT_EQ(shown(), "\r\033[Khalf\r\033[Kdone\r\n\r\033[K" + std::string(39, 'x') + "\r\033[K");
}

TEST_F(ConsoleOn, HasColoursAndCharactersAsTheEnvironmentSays) {
  const Console colours(follower_.get());
  EXPECT_EQ(colours.coloured("text", Colour::red), "\033[31mtext\033[0m");
  EXPECT_EQ(colours.coloured("text", Colour::none), "text");
  EXPECT_EQ(colours.bar(0.5, 4), "██··");
  EXPECT_EQ(colours.bar(0.3, 4), "█▏··");
  EXPECT_EQ(colours.bar(7, 2), "██") << "clamped";
  ::setenv("NO_COLOR", "1", 1);
  ::setenv("LC_ALL", "C", 1);
  const Console plain(follower_.get());
  EXPECT_TRUE(plain.is_terminal());
  EXPECT_EQ(plain.coloured("text", Colour::red), "text");
  EXPECT_EQ(plain.bar(0.5, 4), "##..");
}

TEST_F(ConsoleOn, ShowsWorkThatTakesLongerThanASecond) {
  const FileDescriptor before(::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3));
  ::dup2(follower_.get(), STDERR_FILENO);
  { const WorkProgress quick("quick", WorkUnit::bytes, 100); }
  std::string text;
  {
    const WorkProgress progress("working", WorkUnit::bytes, 100);
    const WorkProgress second("not shown", WorkUnit::rounds, 1);
    work_done(WorkUnit::bytes, 50);
    work_done(WorkUnit::samples, 50);
    text = shown("working");
  }
  ::dup2(before.get(), STDERR_FILENO);
  text += shown();
  EXPECT_TRUE(text.starts_with("\r\033[K\033[36m█████·····\033[0m  50%  ")) << text;
  EXPECT_TRUE(std::regex_search(text, std::regex("50%  ([0-9]+ s), \\1 left  working"))) << text;
  EXPECT_TRUE(text.ends_with("\r\033[K")) << text;
  EXPECT_EQ(text.find("quick"), std::string::npos);
  EXPECT_EQ(text.find("not shown"), std::string::npos);
}

TEST(Times, AreShortTexts) {
  EXPECT_EQ(duration_text(59.4), "59 s");
  EXPECT_EQ(duration_text(185), "3:05 min");
  EXPECT_EQ(duration_text(3723), "1:02:03 h");
  EXPECT_EQ(duration_text(-1), "0 s");
  EXPECT_EQ(times_text(0.25, 30), "30 s, 1:30 min left");
  EXPECT_EQ(times_text(0, 30), "30 s");
  EXPECT_EQ(times_text(1, 30), "30 s");
}

TEST_F(ConsoleOn, ThatIsDumbGetsLinesOnly) {
  ::setenv("TERM", "dumb", 1);
  const Console console(follower_.get());
  EXPECT_FALSE(console.is_terminal());
  EXPECT_FALSE(console.has_colour());
  console.status("half");
  console.line("done");
  console.clear_status();
  EXPECT_EQ(shown(), "done\r\n");
}

TEST(Console, NeedsNoDescriptor) {
  const Console console(1000);
  EXPECT_FALSE(console.is_terminal());
  EXPECT_EQ(console.width(), 80);
  console.line("nobody reads this");
}

TEST(Console, CutsAtCharactersAndKeepsColours) {
  EXPECT_EQ(cut_to_width("abc", 5), "abc");
  EXPECT_EQ(cut_to_width("\033[36m█▏··\033[0m 50%", 5), "\033[36m█▏··\033[0m ");
  EXPECT_EQ(cut_to_width("\033[36mabc\033[0m", 1), "\033[36ma\033[0m");
  EXPECT_EQ(cut_to_width("abc", 0), "");
  EXPECT_EQ(cut_with_mark("abc", 3, true), "abc");
  EXPECT_EQ(cut_with_mark("abcd", 3, true), "ab…");
  EXPECT_EQ(cut_with_mark("\033[36mabcd\033[0m", 3, false), "\033[36mab\033[0m~");
  EXPECT_EQ(cut_with_mark("abcd", 1, false), "~");
  EXPECT_EQ(cut_with_mark("abcd", 0, true), "");
}

}  // namespace
}  // namespace distdl
