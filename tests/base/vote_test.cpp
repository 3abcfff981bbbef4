// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <distdl/base/errors.hpp>
#include <distdl/base/vote.hpp>

namespace distdl {
namespace {
using testing::ElementsAre;

TEST(Vote, BringsResultsOfAnyText) {
  const std::vector<std::string> votes{vote_for(""), vote_for("n75 no"),
                                       vote_on([] { return std::string("a\0b", 3); })};
  EXPECT_FALSE(failure_of(votes));
  EXPECT_THAT(results_of(votes), ElementsAre("", "n75 no", std::string("a\0b", 3)));
}

TEST(Vote, TellsTheFirstFailureAndHowManyThereAre) {
  const auto failed = failure_of({vote_for("fine"), vote_on([]() -> std::string { throw ConfigError("too small"); }),
                                  vote_for("fine"), vote_against(ExitCode::storage, "full")});
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->rank, 1u);
  EXPECT_EQ(failed->count, 2u);
  EXPECT_EQ(failed->code, ExitCode::config);
  EXPECT_EQ(failed->message, "too small");
}

TEST(Vote, GivesTheCodeOfOtherExceptions) {
  const auto work = []() -> std::string { throw std::runtime_error("of a library: 7"); };
  EXPECT_EQ(failure_of({vote_on(work)})->code, ExitCode::internal);
  EXPECT_EQ(failure_of({vote_on(work, ExitCode::storage)})->code, ExitCode::storage);
  EXPECT_EQ(failure_of({vote_on(work)})->message, "of a library: 7");
}

TEST(Vote, CountsWhatItCannotReadAsAFailure) {
  for (const char* text : {"", "n", "n75", "nonsense", "75 late"}) {
    const auto failed = failure_of({vote_for(""), text});
    ASSERT_TRUE(failed) << text;
    EXPECT_EQ(failed->rank, 1u) << text;
  }
  EXPECT_EQ(failure_of({vote_against(ExitCode::requeue, "")})->message, "");
}

}  // namespace
}  // namespace distdl
