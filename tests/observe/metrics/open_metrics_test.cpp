// SPDX-License-Identifier: Apache-2.0
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <unistd.h>

#include <distdl/base/errors.hpp>
#include <distdl/observe/run/run_folder.hpp>

namespace distdl::observe {
namespace {
using ::testing::HasSubstr;

class OpenMetricsFile : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string text() const {
    std::ifstream in(file_);
    return std::string((std::istreambuf_iterator<char>(in)), {});
  }
  std::string refusal() const try {
    OpenMetrics metrics(Options{.openmetrics = file_}, "r");
    return "";
  } catch (const ConfigError& error) {
    return error.what();
  }

  std::filesystem::path folder_ =
      std::filesystem::path(::testing::TempDir()) / ("metrics_" + std::to_string(::getpid()));
  std::filesystem::path file_ = folder_ / "distdl.prom";
};

TEST_F(OpenMetricsFile, HasTheNewestValues) {
  std::ofstream(file_) << "of an earlier run";
  RunFolder records(folder_ / "run", 0, Options{.openmetrics = file_});
  records::Started started{{}, Step(100), 2, 50, 5, "reference"};
  started.start = 7;
  records.on(started);
  EXPECT_THAT(text(), HasSubstr("\ndistdl_total_steps{run=\"")) << "it is written at once";
  records.on(records::StepDone{Step(3), 0.5, 1.25, 0.5, 0.01, 100, 0.125});
  records.on(records::Evaluated{Step(3), 0.5, 0.75, 0.875, 50});
  records.on(records::Finished{Step(3), 0.75, 0.875});
  const std::string all = text();
  const std::string label = "{run=\"" + (folder_ / "run").string() + "\"} ";
  for (const char* line : {"distdl_step@3", "distdl_loss@1.25", "distdl_validation_accuracy_ratio@0.875",
                           "distdl_waited_seconds@0.125", "distdl_start@7", "distdl_ranks@2"}) {
    std::string expected = line;
    expected.replace(expected.find('@'), 1, label);
    EXPECT_THAT(all, HasSubstr("\n" + expected + "\n"));
  }
  EXPECT_THAT(all, HasSubstr("# TYPE distdl_waited_seconds gauge\n# UNIT distdl_waited_seconds seconds\n# HELP "));
  EXPECT_TRUE(all.ends_with("\n# EOF\n"));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 2) << "no other file is left";
}

TEST_F(OpenMetricsFile, NeverTakesThePlaceOfWhatIsNoFile) {
  ASSERT_EQ(::mkfifo(file_.c_str(), 0600), 0);
  EXPECT_THAT(refusal(),
              ::testing::AllOf(HasSubstr("is a FIFO"), HasSubstr("log.openmetrics"), HasSubstr(file_.string())));
  std::filesystem::remove(file_);
  std::filesystem::create_directory(file_);
  EXPECT_THAT(refusal(), HasSubstr("is a folder"));
  std::filesystem::remove(file_);
  std::filesystem::create_symlink(folder_ / "elsewhere", file_);
  EXPECT_THAT(refusal(), HasSubstr("is a link"));
  std::filesystem::remove(file_);
  EXPECT_EQ(refusal(), "");
  file_ = folder_ / "gone" / "distdl.prom";
  EXPECT_THAT(refusal(), HasSubstr("there is no folder"));
  file_ = "/proc/distdl.prom";  // where nobody may make a file
  EXPECT_THAT(refusal(), HasSubstr("this user cannot write there"));
}

TEST_F(OpenMetricsFile, NorWhenThatComesLater) {
  OpenMetrics metrics(Options{.openmetrics = file_}, "r");
  metrics.write();
  EXPECT_EQ(text(), "# EOF\n");
  std::filesystem::remove(file_);
  ASSERT_EQ(::mkfifo(file_.c_str(), 0600), 0);
  ::testing::internal::CaptureStderr();
  metrics.write();
  metrics.write();
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("is a FIFO now"));
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1) << log;
  struct stat info {};
  ASSERT_EQ(::lstat(file_.c_str(), &info), 0);
  EXPECT_TRUE(S_ISFIFO(info.st_mode));
}

TEST_F(OpenMetricsFile, EscapesTheNameOfTheRun) {
  EXPECT_EQ(escaped_label("a\"b\\c\nd"), "a\\\"b\\\\c\\nd");
}
}  // namespace
}  // namespace distdl::observe
