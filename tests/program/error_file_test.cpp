// SPDX-License-Identifier: Apache-2.0
#include <random>
#include <string>

#include <gtest/gtest.h>

#include <distdl/program/error_file.hpp>

namespace distdl::program {
namespace {
TEST(ErrorFile, HasMessageAndStackOfTheException) {
  const auto error = error_from(
      R"({"message": {"message": "ValueError: w\u00e4", "extraInfo": {"py_callstack": "a\nb\n", "timestamp": "7"}}})");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->message, "ValueError: wä");
  EXPECT_EQ(error->stack, "a\nb\n");
}

TEST(ErrorFile, MayHaveTheMessageAlone) {
  const auto error = error_from(R"({"message": "Failed", "timestamp": 7})");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->message, "Failed");
}

TEST(ErrorFile, IsNoneIfAnythingElseIsInIt) {
  for (const char* text : {"", "7", "[]", "{}", R"({"message": 7})", R"({"message": {"message": []}})",
                           R"({"message": {"extraInfo": 7}})", R"({"message": ""})", "{\"message\": \"\xff\"}"})
    EXPECT_FALSE(error_from(text)) << text;
  EXPECT_TRUE(error_from(R"({"message": {"message": "x", "extraInfo": {"py_callstack": 7}}})")->stack.empty());
  EXPECT_TRUE(error_from(R"({"message": {"message": "x", "extraInfo": []}})")->stack.empty());
}

TEST(ErrorFile, IsLimited) {
  const std::string all(100000, 'x');
  const auto error =
      error_from(R"({"message": {"message": ")" + all + R"(", "extraInfo": {"py_callstack": ")" + all + "\"}}}");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->message.size(), 1000U);
  EXPECT_EQ(error->stack.size(), 64U << 10);
}

TEST(ErrorFile, AnyBytesAreReadOrRefused) {
  const std::string whole = R"({"message": {"message": "x", "extraInfo": {"py_callstack": "y"}}})";
  std::mt19937 random(1);  // NOLINT(cert-msc51-cpp): the same each time
  for (int i = 0; i < 20000; ++i) {
    std::string text = whole.substr(0, random() % (whole.size() + 1));
    for (auto changes = random() % 4; !text.empty() && changes > 0; --changes)
      text[random() % text.size()] = static_cast<char>(random());
    const auto error = error_from(text);
    EXPECT_TRUE(!error || !error->message.empty());
  }
}
}  // namespace
}  // namespace distdl::program
