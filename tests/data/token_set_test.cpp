// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "tests/data/scratch_folder.hpp"
#include <distdl/base/errors.hpp>
#include <distdl/data/text_import.hpp>
#include <distdl/data/token_set.hpp>

namespace distdl::data {
namespace {
using testing::HasSubstr;

constexpr std::int64_t kTokens = 3 * 65536 + 100;  // three chunks and a piece

class Tokens : public ::testing::Test {
 protected:
  Tokens() {
    std::string text(kTokens, '\0');
    for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(expected(static_cast<std::int64_t>(i)));
    write_file(folder_ / "text", text);
    import_text(folder_ / "text", folder_ / "text.h5", Overwrite::refuse);
  }
  static std::int32_t expected(std::int64_t i) { return static_cast<std::int32_t>(i * 7 % 251 + i / 65536); }

  ScratchFolder folder_;
};

TEST_F(Tokens, AreReadAcrossChunks) {
  TokenSet set = TokenSet::open(folder_ / "text.h5", 0);  // one chunk in memory at a time
  EXPECT_EQ(set.description().samples, kTokens);
  for (auto [first, count] : {std::pair<std::int64_t, std::int64_t>{0, 10},
                              {65530, 12},
                              {65536, 65536},
                              {65000, 131200},
                              {kTokens - 5, 5},
                              {7, 0}}) {
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(count) + 1, -1);
    set.read(first, count, tokens.data());
    for (std::int64_t i = 0; i < count; ++i) ASSERT_EQ(tokens[i], expected(first + i)) << first << " + " << i;
    EXPECT_EQ(tokens.back(), -1);  // and no more
  }
}

TEST_F(Tokens, OutsideTheSetAreRefused) {
  TokenSet set = TokenSet::open(folder_ / "text.h5", 1);
  std::vector<std::int32_t> tokens(20);
  EXPECT_THROW(set.read(kTokens - 5, 6, tokens.data()), ConfigError);
  EXPECT_THROW(set.read(-1, 1, tokens.data()), ConfigError);
}

TEST_F(Tokens, AreNotLookedForAmongImages) {
  write_small_images(folder_ / "images.h5", 4);
  try {
    TokenSet::open(folder_ / "images.h5", 1);
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("holds images, but tokens are expected"));
  }
  EXPECT_THROW(TokenSet::open(folder_ / "text.h5", -1), ConfigError);
}
}  // namespace
}  // namespace distdl::data
