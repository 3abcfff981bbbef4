// SPDX-License-Identifier: Apache-2.0
#include <array>

#include <gtest/gtest.h>

#include <distdl/base/one_of.hpp>

namespace distdl {
namespace {
enum class Colour { red, deep_blue };
constexpr std::array<Named<Colour>, 2> choices_of(Colour) {
  return {{{Colour::red, "red", ""}, {Colour::deep_blue, "deep-blue", "as the sea"}}};
}

TEST(OneOf, IsMadeOfAValueOrItsName) {
  const OneOf<Colour> blue = "deep-blue";
  EXPECT_EQ(blue, Colour::deep_blue);
  EXPECT_EQ(blue.name(), "deep-blue");
  EXPECT_EQ(fmt::format("{}", OneOf<Colour>(Colour::red)), "red");
  EXPECT_EQ(OneOf<Colour>::find("green"), std::nullopt);
  EXPECT_EQ(OneOf<Colour>::find(""), std::nullopt);
}

TEST(OneOf, AnErrorNamesAllValues) {
  try {
    const OneOf<Colour> green = std::string("green");
    ADD_FAILURE() << green.name();
  } catch (const ConfigError& error) {
    EXPECT_STREQ(error.what(), R"("green" is not "red" or "deep-blue")");
  }
}

TEST(OneOf, HelpExplainsValues) {
  EXPECT_STREQ(OneOf<Colour>::help("of the sky"), R"(of the sky: "red" or "deep-blue" (as the sea))");
}
}  // namespace
}  // namespace distdl
