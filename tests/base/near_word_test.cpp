// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <distdl/base/near_word.hpp>

namespace distdl {
namespace {

TEST(NearWord, CountsEdits) {
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
  EXPECT_EQ(edit_distance("stauts", "status"), 1u) << "two letters exchanged";
  EXPECT_EQ(edit_distance("same", "same"), 0u);
}

TEST(NearWord, FindsTypingErrorsOnly) {
  const std::vector<std::string> commands{"run", "status", "submit", "checkpoint"};
  EXPECT_EQ(near_word(commands, "stauts"), "status");
  EXPECT_EQ(near_word(commands, "sumbit"), "submit");
  EXPECT_EQ(near_word(commands, "chekcpoitn"), "checkpoint");
  EXPECT_EQ(near_word(commands, "rum"), "run");
  EXPECT_EQ(near_word(commands, "xylophone"), "");
  EXPECT_EQ(near_word(commands, ""), "");
  EXPECT_EQ(near_word({}, "run"), "");
}

}  // namespace
}  // namespace distdl
