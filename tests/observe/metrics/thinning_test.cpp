// SPDX-License-Identifier: Apache-2.0
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <unistd.h>

#include <distdl/base/errors.hpp>
#include <distdl/observe/metrics/thinning.hpp>
#include <distdl/observe/run/run_folder.hpp>

namespace distdl::observe {
namespace {
using nlohmann::json;

class Thinning : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  /// Steps of one start, with an evaluation after each hundredth.
  void write_steps(int start, std::int64_t first, std::int64_t last) const {
    std::ofstream out(file_, std::ios::app);
    for (std::int64_t step = first; step <= last; ++step) {
      json row{{"time", 1e9 + static_cast<double>(step)}, {"start", start}, {"step", step}, {"loss", start}};
      if (step == first) row["version"] = 2;
      out << row << '\n';
      if (step % 100 == 0) out << json{{"start", start}, {"step", step}, {"validation_loss", 1}} << '\n';
    }
  }
  std::vector<json> rows() const {
    std::vector<json> all;
    std::ifstream in(file_);
    for (std::string line; std::getline(in, line);) all.push_back(json::parse(line));
    return all;
  }

  std::filesystem::path folder_ = std::filesystem::path(::testing::TempDir()) / ("thin_" + std::to_string(::getpid()));
  std::filesystem::path file_ = folder_ / "metrics.jsonl";
};

TEST_F(Thinning, KeepsTheNewestRowsAndWhatIsRare) {
  write_steps(1, 1, 2000);
  write_steps(2, 1801, 4000);
  std::ofstream(file_, std::ios::app) << "{\"torn\":";
  const auto most = std::filesystem::file_size(file_);
  thin_out(file_, most);
  EXPECT_LE(std::filesystem::file_size(file_), most - most / 4);
  int evaluations = 0, first = 0;
  std::vector<std::int64_t> steps;
  for (const json& row : rows()) {
    evaluations += row.contains("validation_loss");
    first += row.contains("version");
    if (row.contains("loss")) steps.push_back(row["step"]);
  }
  EXPECT_EQ(evaluations, 20 + 22);
  EXPECT_EQ(first, 2);
  ASSERT_GT(steps.size(), 1000u);
  for (std::int64_t i = 0; i < 1000; ++i) ASSERT_EQ(steps[steps.size() - 1 - static_cast<std::size_t>(i)], 4000 - i);
}

TEST_F(Thinning, GoesOnUntilTheFileIsShortEvenOfRareRows) {
  for (int start = 1; start <= 2000; ++start) write_steps(start, start * 100, start * 100);
  const std::uint64_t most = std::filesystem::file_size(file_) / 20;
  thin_out(file_, most);
  EXPECT_LE(std::filesystem::file_size(file_), most - most / 4);
  EXPECT_EQ(rows().back()["step"], 200000);
}

TEST_F(Thinning, NeverGivesTheLossOfAnEarlierStart) {
  // The second start did these steps again: that it lost a row must not let the first one answer for it.
  for (const std::int64_t from : {1, 2}) {
    std::filesystem::remove(file_);
    write_steps(1, 1, 60);
    write_steps(2, from, 59);
    write_steps(3, 60, 240);
    thin_out(file_, std::filesystem::file_size(file_));
    for (std::int64_t step = from; step < 59; ++step) {
      const auto loss = read_loss_after(folder_, Step(step));
      EXPECT_TRUE(!loss || *loss == 2) << step;
    }
  }
}

TEST_F(Thinning, LeavesWhatIsShortAndWhatIsNoFile) {
  write_steps(1, 1, 10);
  const auto before = rows();
  thin_out(file_, 1 << 20);
  EXPECT_EQ(rows(), before);
  EXPECT_THROW(thin_out(folder_ / "gone", 1), StorageError);
  std::filesystem::create_symlink(file_, folder_ / "link");
  EXPECT_THROW(thin_out(folder_ / "link", 1), StorageError);
  EXPECT_EQ(rows(), before);
}
}  // namespace
}  // namespace distdl::observe
