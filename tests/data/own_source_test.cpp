// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "tests/data/scratch_folder.hpp"
#include <distdl/base/errors.hpp>
#include <distdl/data/own_source.hpp>

namespace distdl::data {
namespace {
using testing::ElementsAre;
using testing::HasSubstr;

std::string refusal(const std::string& library, const std::string& text) {
  Options options;
  options.source = library;
  options.train = text;
  try {
    Batch batch;
    open_sources(options, 1, 1).training->read(std::vector<Source::Pick>{{0, 0}}, batch);
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was refused";
}

TEST(OwnSources, GiveTheirSamples) {
  Options options;
  options.source = DISTDL_ODD_SOURCE;
  options.train = "fine";
  options.holdout = 3;
  const auto sources = open_sources(options, 1, 1);
  EXPECT_EQ(sources.training->samples(), 7);
  EXPECT_EQ(sources.validation->samples(), 3);
  EXPECT_EQ(sources.training->digest(), "odd-fine");
  EXPECT_TRUE(sources.files.empty());
  Batch batch;
  sources.validation->read(std::vector<Source::Pick>{{4, 1}, {0, 2}}, batch);
  EXPECT_THAT(batch.values, ElementsAre(8, 4, 0, 9, 0, 0));
  EXPECT_THAT(batch.labels, ElementsAre(1, 1));
  options.train = "numbers";
  const auto numbers = open_sources(options, 1, 1);
  EXPECT_EQ(numbers.training->targets(), tensor::Shape{2});
  numbers.training->read(std::vector<Source::Pick>{{0, 5}}, batch);
  EXPECT_THAT(batch.targets, ElementsAre(0, 7));
  EXPECT_TRUE(batch.labels.empty());
}

TEST(OwnSources, AreClosedOnceForEachTimeTheyWereOpenedEvenIfTheyGaveNull) {
  Options options;
  options.source = DISTDL_ODD_SOURCE;
  const auto samples_of = [&](const std::string& text) {
    options.train = text;
    return open_sources(options, 1, 1).training->samples();
  };
  const auto before = samples_of("nulls");
  constexpr std::int64_t kTimes = 2;  // first for the number of samples
  samples_of("null");
  EXPECT_EQ(samples_of("nulls"), before + kTimes);
}

TEST(OwnSources, TellWhatIsWrongWithThem) {
  EXPECT_THAT(refusal(DISTDL_ODD_SOURCE, "closed"), HasSubstr("cannot be opened: it is locked"));
  EXPECT_THAT(refusal(DISTDL_ODD_SOURCE, "empty"), HasSubstr("describes 0 samples"));
  EXPECT_THAT(refusal(DISTDL_ODD_SOURCE, "flat"), HasSubstr("of the shape (3)"));
  EXPECT_THAT(refusal(DISTDL_ODD_SOURCE, "both"), HasSubstr("describes 4 classes and targets of the shape (2)"));
  EXPECT_THAT(refusal(DISTDL_ODD_SOURCE, "nameless"), HasSubstr("has no digest"));
  EXPECT_THAT(refusal(DISTDL_ODD_SOURCE, "unreadable"), HasSubstr("cannot be read: it does not say why"));
  EXPECT_THAT(refusal(DISTDL_ODD_SOURCE, "label"), HasSubstr("the label 2, outside the classes 0 to 1"));
  EXPECT_THAT(refusal(DISTDL_OLD_SOURCE, "fine"),
              HasSubstr("version 77 of its interface, but this distdl has version 1"));
  EXPECT_THAT(refusal(DISTDL_BARE_SOURCE, "fine"), HasSubstr("has no function distdl_source()"));
  EXPECT_THAT(refusal(DISTDL_ODD_SOURCE, "huge"), HasSubstr("too many elements"));
  EXPECT_THAT(refusal("/nowhere/none.so", "fine"), HasSubstr("cannot be loaded"));
  EXPECT_THAT(refusal("libm.so.6", "fine"), HasSubstr("cannot be loaded")) << "a library of the system";
}

}  // namespace
}  // namespace distdl::data
