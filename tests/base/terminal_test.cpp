// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <distdl/base/file_descriptor.hpp>
#include <distdl/base/terminal.hpp>

namespace distdl {
namespace {
using testing::ElementsAre;

KeyPress letter(char c) {
  return {Key::character, c};
}

std::vector<KeyPress> keys(std::string bytes, std::string* rest = nullptr) {
  auto found = take_keys(bytes);
  if (rest) *rest = bytes;
  return found;
}

TEST(TerminalKeys, AreLettersAndSequences) {
  EXPECT_THAT(keys("qB?"), ElementsAre(letter('q'), letter('B'), letter('?')));
  EXPECT_THAT(keys("\r\n\x0c"), ElementsAre(KeyPress{Key::enter}, KeyPress{Key::enter}, letter('\x0c')));
  EXPECT_THAT(keys("\033[A\033OBj"), ElementsAre(KeyPress{Key::up}, KeyPress{Key::down}, letter('j')));
  EXPECT_THAT(keys("\033[5~\033[6~"), ElementsAre(KeyPress{Key::page_up}, KeyPress{Key::page_down}));
  EXPECT_THAT(keys("\033[1;5Cq"), ElementsAre(KeyPress{Key::unknown}, letter('q'))) << "with Ctrl";
  EXPECT_THAT(keys("\033q"), ElementsAre(KeyPress{Key::escape}, letter('q')));
  EXPECT_THAT(keys("\xc3\xa4q"), ElementsAre(letter('q'))) << "not ASCII";
}

TEST(TerminalKeys, OfASequenceThatIsNotWholeStay) {
  std::string rest;
  EXPECT_THAT(keys("q\033", &rest), ElementsAre(letter('q')));
  EXPECT_EQ(rest, "\033");
  EXPECT_THAT(keys("\033[1;", &rest), ElementsAre());
  EXPECT_EQ(rest, "\033[1;");
  keys("\033[" + std::string(40, '1'), &rest);
  EXPECT_EQ(rest, "") << "none is so long";
}

/// tests/app/watch_test.py has those with a terminal.
TEST(Terminals, ThatAreNoneAreNotOpened) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const FileDescriptor read(ends[0]), write(ends[1]);
  Terminal terminal(read.get(), write.get());
  EXPECT_FALSE(terminal.is_open());
  terminal.show({"text"});
  EXPECT_EQ(terminal.wait(Milliseconds(0)).event, Terminal::Event::closed);
  EXPECT_EQ(terminal.console().width(), 80);
  EXPECT_EQ(terminal.console().height(), 24);
}

TEST(Widths, AreThoseOfWhatIsSeen) {
  EXPECT_EQ(width_of(""), 0);
  EXPECT_EQ(width_of("abc"), 3);
  EXPECT_EQ(width_of("\033[36m█·\033[0m x"), 4);
  EXPECT_EQ(width_of(cut_to_width("\033[36m████\033[0m", 2)), 2);
}

}  // namespace
}  // namespace distdl
