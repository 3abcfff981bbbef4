// SPDX-License-Identifier: Apache-2.0
// Other sources of samples than one data set: mixtures, and shared objects of the user's.
#include <gmock/gmock.h>

#include "tests/train/run_fixture.hpp"

namespace distdl::train {
namespace {

class SourceRuns : public Run {};

TEST_F(SourceRuns, OfAMixtureAreTheSameOnAnyRanksAndAfterAStop) {
  const auto more = (folder_ / "more.h5").string();
  data::make_shapes({.samples = 90, .size = 12, .classes = 4, .seed = 6}, more, Overwrite::refuse);
  recipe_.data = {};
  recipe_.data.sets = {set().string(), more};
  recipe_.data.weights = {2, 1};
  recipe_.data.validation = more;
  expect_same_bytes_when_stopped_and_resumed();
  const auto whole = digest("whole");
  EXPECT_EQ(digest_of(3, "on3"), whole);
  recipe_.data.weights = {1, 2};
  EXPECT_NE(digest_of(1, "other"), whole);
}

TEST_F(SourceRuns, OfASharedObjectAreTheSameOnAnyRanksAndAfterAStop) {
  recipe_.data = {};
  recipe_.data.source = DISTDL_WAVES;
  recipe_.data.train = "400";
  recipe_.data.validation = "+60";
  recipe_.train.epochs = 6;
  expect_same_bytes_when_stopped_and_resumed();
  EXPECT_GT(*recorder_.evaluated.back().accuracy, 0.6);
  EXPECT_EQ(digest_of(3, "on3"), digest("whole"));
}

}  // namespace
}  // namespace distdl::train
