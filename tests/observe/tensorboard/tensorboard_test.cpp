// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <csignal>
#include <cstring>
#include <fstream>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/observe/export/event_file.hpp"
#include <distdl/base/errors.hpp>
#include <distdl/observe/kept_job.hpp>
#include <distdl/observe/run/run_folder.hpp>
#include <distdl/observe/tensorboard/event_records.hpp>

namespace distdl::observe {
namespace {
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;

std::string hex(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return text;
}

// The expected bytes are those of tensorboard 2.21, made with its classes and its masked_crc32c().
TEST(EventRecords, HaveTheBytesOfTensorBoard) {
  EXPECT_EQ(hex(version_record(1.5)),
            "1800000000000000a37f4b2209000000000000f83f1a0d627261696e2e4576656e743a322a28646c");
  EXPECT_EQ(hex(start_record({1.5, 301})), "100000000000000095fbfe1809000000000000f83f10ad023a020801d17949d4");
  EXPECT_EQ(hex(scalars_record({1.5, 301}, {{"train/loss", 0.25}, {"train/epoch", -2}})),
            "3500000000000000d6c55de609000000000000f83f10ad022a270a110a0a747261696e2f6c6f7373150000803e0a120a0b74726169"
            "6e2f65706f636815000000c0a1fc1e99");
}

TEST(EventRecords, OfAJobAreATextAndHyperparameters) {
  EXPECT_EQ(hex(job_records({1.5, 301}, "[optim]\nlr = 0.5\n")),
            "490000000000000036250ea309000000000000f83f10ad022a3b0a390a036a6f6242280807120412020801421e606060746f6d6c0a"
            "5b6f7074696d5d0a6c72203d20302e350a0a6060600a4a080a060a0474657874c8843431"
            "6500000000000000ebd05a6909000000000000f83f10ad022a570a550a1c5f68706172616d735f2f73657373696f6e5f7374617274"
            "5f696e666f4204080112004a2f0a2d0a0768706172616d7312221a200a150a086f7074696d2e6c72120911000000000000e03f2900"
            "0000000000f83f7bfdbd52");
  EXPECT_EQ(job_records({1.5, 301}, ""), "");
}

TEST(EventRecords, BecomeRarerInLongRuns) {
  EXPECT_TRUE(is_shown(1) && is_shown(9'999) && is_shown(10'000) && is_shown(10'010) && is_shown(100'000));
  EXPECT_FALSE(is_shown(10'001) || is_shown(99'999) || is_shown(100'010));
  EXPECT_TRUE(is_shown(100'100) && is_shown(2'000'000'000));
}

TEST(Histograms, CountFiniteValuesInAscendingBuckets) {
  Histogram histogram;
  for (const double value : {-1.0, 0.0, 0.5, 0.5, std::numeric_limits<double>::infinity(), 1e30}) histogram.add(value);
  const auto fields = wire_fields(histogram.message().bytes());
  const auto numbers = [&](int field) {
    const std::string& bytes = fields.find(field)->second;
    std::vector<double> values(bytes.size() / sizeof(double));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  };
  EXPECT_THAT(numbers(1), ElementsAre(-1));
  EXPECT_THAT(numbers(2), ElementsAre(1e30));
  EXPECT_THAT(numbers(3), ElementsAre(5));
  EXPECT_THAT(numbers(4), ElementsAre(1e30));
  const auto ends = numbers(6), counts = numbers(7);
  ASSERT_EQ(ends.size(), counts.size());
  EXPECT_TRUE(std::is_sorted(ends.begin(), ends.end()));
  const auto count_of = [&](double value) { return counts.at(std::ranges::upper_bound(ends, value) - ends.begin()); };
  EXPECT_EQ(count_of(-1), 1);
  EXPECT_EQ(count_of(0), 1);
  EXPECT_EQ(count_of(0.5), 2);
  EXPECT_EQ(counts.front() * counts.back(), 1) << "no empty buckets outside";
  EXPECT_EQ(ends.back(), std::numeric_limits<double>::max());
  EXPECT_EQ(Histogram().message().bytes(), "");
}

class TensorBoardFiles : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::remove_all(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  RunFolder records() const { return RunFolder(folder_, 0, Options{.tensorboard = true}); }
  static records::Started started(std::uint64_t start, std::optional<Step> resumed = {}) {
    records::Started event{resumed, Step(100), 2, 50, 5, "reference"};
    event.start = start;
    return event;
  }
  static void train(RunFolder& records, std::int64_t first, std::int64_t last, double loss) {
    for (std::int64_t step = first; step <= last; ++step) {
      records::StepDone event{Step(step), 0.5, loss + static_cast<double>(step), 0.5, 0.01, 100, 0.125};
      event.is_followed = step < last;  // so that all are written at the end
      records.on(event);
    }
  }

  std::filesystem::path folder_ = std::filesystem::path(::testing::TempDir()) / ("board_" + std::to_string(::getpid()));
  std::filesystem::path events_ = folder_ / "tensorboard";
};

TEST_F(TensorBoardFiles, AreThereOnlyIfWanted) {
  RunFolder records(folder_, 0, Options{});
  records.on(started(1));
  train(records, 1, 2, 0);
  EXPECT_FALSE(std::filesystem::exists(events_));
}

TEST_F(TensorBoardFiles, HaveNoStepTwiceAfterAResume) {
  {
    RunFolder first = records();
    keep_job(folder_, "[train]\nsteps = 6\n");
    first.on(started(1));
    train(first, 1, 4, 0);
    first.on(records::Evaluated{Step(2), 0.5, 0.75, 0.875, 50});
    first.on(records::Evaluated{Step(4), 0.5, 0.5, 0.875, 50});
    first.on(records::CheckpointSaved{Step(2), 1000, 0.5, 0.25});
  }
  RunFolder second = records();
  second.on(started(2, Step(2)));
  second.on(records::Evaluated{Step(2), 0.5, 0.75, 0.875, 50});  // again, as a run does
  train(second, 3, 6, 100);
  second.on(records::Finished{Step(6), 0.75, 0.875});
  const EventFolder found(events_);
  EXPECT_THAT(found.scalars.at("train/loss"),
              ElementsAre(Pair(1, 1), Pair(2, 2), Pair(3, 103), Pair(4, 104), Pair(5, 105), Pair(6, 106)));
  EXPECT_THAT(found.scalars.at("validation/loss"), ElementsAre(Pair(2, 0.75)));
  EXPECT_THAT(found.scalars.at("checkpoint/stall_seconds"), ElementsAre(Pair(2, 0.25)));
  EXPECT_EQ(found.scalars.at("train/learning_rate").size(), 6u);
  EXPECT_FALSE(found.scalars.contains("train/step"));
  EXPECT_THAT(found.plugins, ElementsAre("job", "_hparams_/session_start_info", "job", "_hparams_/session_start_info",
                                         "_hparams_/session_end_info"));
}

TEST_F(TensorBoardFiles, ShowAnEvaluationThatAnEarlierStartDidNotGetTo) {
  {
    RunFolder first = records();
    first.on(started(1));
    train(first, 1, 4, 0);
    first.on(records::Evaluated{Step(4), 0.5, 0.5, 0.875, 50});
  }
  {
    RunFolder second = records();  // undoes step 4, does it again, and is killed before its evaluation
    second.on(started(2, Step(2)));
    train(second, 3, 4, 0);
  }
  RunFolder third = records();
  third.on(started(3, Step(4)));
  third.on(records::Evaluated{Step(4), 0.5, 0.25, 0.875, 50});
  EXPECT_THAT(EventFolder(events_).scalars.at("validation/loss"), ElementsAre(Pair(4, 0.25)));
}

TEST_F(TensorBoardFiles, EndWithAWholeRecordWhereTheDiskIsFull) {
  RunFolder records = this->records();
  records.on(started(1));
  train(records, 1, 20, 0);  // so that what is logged fits below the limit
  const auto file = events_ / event_file_name(1);
  struct rlimit before {
  }, small{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  small = {std::filesystem::file_size(file) + 5, before.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ::testing::internal::CaptureStderr();
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  train(records, 21, 22, 0);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  train(records, 23, 23, 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("log.tensorboard shows no more of this start"));
  EXPECT_EQ(std::filesystem::file_size(file) + 5, small.rlim_cur);
  EXPECT_EQ(EventFolder(events_).scalars.at("train/loss").size(), 20u);
}

TEST_F(TensorBoardFiles, LackSamplesAndHistogramsThatCannotBeRead) {
  RunFolder records(folder_, 0, {.tensorboard = true, .tensorboard_histograms = 1, .tensorboard_samples = 2});
  keep_job(folder_, "[data]\ntrain = \"none.h5\"\n");
  ::testing::internal::CaptureStderr();
  records.on(started(1));
  train(records, 1, 1, 0);
  records.on(records::CheckpointSaved{Step(1), 1000, 0.5, 0.25});  // which somebody has removed
  train(records, 2, 2, 0);
  records.on(records::Finished{Step(2), 0.75, 0.875});
  const auto log = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, AllOf(HasSubstr("none.h5"), HasSubstr("TensorBoard gets no samples")));
  EXPECT_THAT(log, Not(HasSubstr("histograms")));
  EXPECT_EQ(EventFolder(events_).scalars.at("train/loss").size(), 2u);
}

TEST(LogOptions, SayThatAnExtraOfTensorBoardNeedsIt) {
  EXPECT_NO_THROW(check({.tensorboard = true, .tensorboard_histograms = 3, .tensorboard_samples = 9}));
  EXPECT_THROW(check({.tensorboard_histograms = 3}), ConfigError);
  EXPECT_THROW(check({.tensorboard_samples = 9}), ConfigError);
  EXPECT_THROW(check({.tensorboard = true, .tensorboard_samples = 100'000}), ConfigError);
}

TEST_F(TensorBoardFiles, LeaveARunAloneThatCannotHaveThem) {
  std::filesystem::create_directories(folder_);
  std::ofstream(events_) << "a file";
  ::testing::internal::CaptureStderr();
  RunFolder records = this->records();
  records.on(started(1));
  train(records, 1, 2, 0);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("log.tensorboard is not written"));
  EXPECT_EQ(read_last_step(folder_), Step(2));
}
}  // namespace
}  // namespace distdl::observe
