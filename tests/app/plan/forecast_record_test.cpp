// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <distdl/app/plan/forecast_record.hpp>
#include <distdl/app/plan/measured_run.hpp>
#include <distdl/base/random.hpp>

namespace distdl::app {
namespace {
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class ForecastRecordTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(run_);
    ::setenv("XDG_CACHE_HOME", (folder_ / "cache").c_str(), 1);
  }
  void TearDown() override {
    ::unsetenv("XDG_CACHE_HOME");
    std::filesystem::remove_all(folder_);
  }

  /// Of 4 ranks in a global batch of 40 samples.
  void plan_as(const parallel::Degrees& degrees, double step_seconds) const {
    forecast::Forecast made;
    made.products.emplace_back();
    made.products.back().product.degrees = degrees;
    made.products.back().step.seconds = step_seconds;
    made.own = std::size_t{0};
    made.global_batch = 40;
    forecast::Machine machine;
    machine.nodes = 4;
    record_forecast(run_, made, machine);
  }

  /// A start of 4 ranks, and a step of it. `product`: empty: as an older version wrote it.
  void run_as(double time, const std::string& product, double samples_per_s) const {
    std::ofstream journal(run_ / "journal.jsonl", std::ios::app), metrics(run_ / "metrics.jsonl", std::ios::app);
    journal << R"({"event":"started","ranks":4,"time":)" << time;
    if (!product.empty()) journal << R"(,"product":")" << product << '"';
    journal << "}\n";
    metrics << R"({"step":1,"loss":1,"time":)" << time + 1 << R"(,"samples_per_s":)" << samples_per_s << "}\n";
  }

  std::filesystem::path folder_ = std::filesystem::path(::testing::TempDir()) / ("forecasts_" + random_hex(8));
  std::filesystem::path run_ = folder_ / "run";
};

TEST_F(ForecastRecordTest, AForecastIsComparedWithStartsOfItsProductAlone) {
  plan_as({.data = 4}, 2);
  plan_as({.data = 2, .pipeline = 2}, 8);
  EXPECT_EQ(errors_of_forecasts(run_), "") << "nothing has run";
  run_as(100, "2x2x1 replicas", 10);
  EXPECT_THAT(
      errors_of_forecasts(run_),
      AllOf(HasSubstr("4 ranks, 2x2x1 replicas: step 8 s forecast, 4 s measured (+100.0%)"), Not(HasSubstr("4x1x1"))));
  run_as(200, "4x1x1 replicas", 20);
  EXPECT_THAT(errors_of_forecasts(run_),
              AllOf(HasSubstr("4 ranks, 4x1x1 replicas: step 2 s forecast, 2 s measured (+0.0%)"),
                    HasSubstr("4 ranks, 2x2x1 replicas: step 8 s forecast, 4 s measured (+100.0%)")));
  plan_as({.data = 2, .pipeline = 2}, 4);
  EXPECT_THAT(errors_of_forecasts(run_), HasSubstr("2x2x1 replicas: step 4 s forecast, 4 s measured (+0.0%)"))
      << "the newest";
}

TEST_F(ForecastRecordTest, TheNodesOfAStartAreThoseThatRanRanks) {
  run_as(50, "version 0.1", 10);
  {
    std::ofstream journal(run_ / "journal.jsonl", std::ios::app);
    journal << R"({"event":"job_started","ranks":8,"node_count":4})"
               "\n"
            << R"({"event":"started","ranks":8,"product":"all","time":100})"
               "\n"
            << R"({"event":"started","ranks":6,"product":"uneven","time":200})"
               "\n";
  }
  run_as(300, "one is lost", 10);
  const auto nodes = [&](std::int64_t ranks, const char* product, std::int64_t spares) {
    return measured_runs(run_, spares).at({ranks, product}).nodes;
  };
  EXPECT_EQ(nodes(4, "version 0.1", 2), 1) << "it did not tell of its nodes";
  EXPECT_EQ(nodes(8, "all", 2), 2) << "spares have no ranks";
  EXPECT_EQ(nodes(4, "one is lost", 2), 1);
  EXPECT_EQ(nodes(6, "uneven", 2), 0);
  EXPECT_EQ(nodes(8, "all", 0), 4);
  EXPECT_EQ(nodes(6, "uneven", 0), 3);
}

TEST_F(ForecastRecordTest, ARunByAnOlderVersionCountsForTheNewestForecast) {
  run_as(100, "", 10);
  plan_as({.data = 4}, 2);
  plan_as({.data = 2, .pipeline = 2}, 8);
  EXPECT_THAT(errors_of_forecasts(run_),
              AllOf(HasSubstr("2x2x1 replicas: step 8 s forecast, 4 s measured (+100.0%)"), Not(HasSubstr("4x1x1"))));
}
}  // namespace
}  // namespace distdl::app
