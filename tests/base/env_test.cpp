// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <distdl/base/env.hpp>
#include <distdl/base/errors.hpp>

namespace distdl {
namespace {
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Env, AnEmptyVariableCountsAsUnset) {
  ::setenv("DISTDL_TEST_ENV", "", 1);
  EXPECT_EQ(env("DISTDL_TEST_ENV"), std::nullopt);
  ::setenv("DISTDL_TEST_ENV", "x y", 1);
  EXPECT_EQ(env("DISTDL_TEST_ENV"), "x y");
  ::unsetenv("DISTDL_TEST_ENV");
  EXPECT_EQ(env("DISTDL_TEST_ENV"), std::nullopt);
}

TEST(Env, ReadsWholeNumbersAndRefusesOthers) {
  for (auto [text, number] : {std::pair("0", 0LL), std::pair("-7", -7LL), std::pair("9000000000", 9'000'000'000LL)}) {
    ::setenv("DISTDL_TEST_NUMBER", text, 1);
    EXPECT_EQ(env_integer("DISTDL_TEST_NUMBER"), number);
  }
  for (const char* text : {"2(x3)", " 1", "1.5", "99999999999999999999", "x"}) {
    ::setenv("DISTDL_TEST_NUMBER", text, 1);
    try {
      env_integer("DISTDL_TEST_NUMBER");
      ADD_FAILURE() << text;
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), HasSubstr(fmt::format("DISTDL_TEST_NUMBER=\"{}\"", text)));
    }
  }
  ::unsetenv("DISTDL_TEST_NUMBER");
  EXPECT_EQ(env_integer("DISTDL_TEST_NUMBER"), std::nullopt);
}

TEST(Env, ADefaultDoesNotReplaceWhatTheUserSet) {
  ::setenv("DISTDL_TEST_DEFAULT", "mine", 1);
  set_env_default("DISTDL_TEST_DEFAULT", "yours");
  EXPECT_EQ(env("DISTDL_TEST_DEFAULT"), "mine");
  ::unsetenv("DISTDL_TEST_DEFAULT");
  set_env_default("DISTDL_TEST_DEFAULT", "yours");
  EXPECT_EQ(env("DISTDL_TEST_DEFAULT"), "yours");
  ::unsetenv("DISTDL_TEST_DEFAULT");
}

TEST(Env, EnvironmentOfAChildReplacesAndAdds) {
  ::setenv("DISTDL_TEST_OLD", "old", 1);
  auto all = environment_with({{"DISTDL_TEST_OLD", "new"}, {"DISTDL_TEST_ADDED", "a=b"}});
  EXPECT_THAT(all, Contains("DISTDL_TEST_OLD=new"));
  EXPECT_THAT(all, Contains("DISTDL_TEST_ADDED=a=b"));
  EXPECT_THAT(all, Not(Contains("DISTDL_TEST_OLD=old")));
  EXPECT_EQ(env("DISTDL_TEST_OLD"), "old") << "this process's own is as it was";
  ::unsetenv("DISTDL_TEST_OLD");
}

TEST(Env, AChildDoesNotInheritWhatIsMeantForTheLibrariesOfThisProcess) {
  ::setenv("DISTDL_TEST_USERS", "mine", 1);
  set_env_default("DISTDL_TEST_USERS", "ours");
  set_env_default("DISTDL_TEST_OURS", "ours");
  const auto all = environment_with({});
  EXPECT_THAT(all, Contains("DISTDL_TEST_USERS=mine"));
  EXPECT_THAT(all, Not(Contains("DISTDL_TEST_OURS=ours")));
  EXPECT_EQ(env("DISTDL_TEST_OURS"), "ours");
  for (const char* name : {"DISTDL_TEST_USERS", "DISTDL_TEST_OURS"}) ::unsetenv(name);
}
}  // namespace
}  // namespace distdl
