// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/pace.hpp"
#include <distdl/observe/health/health_log.hpp>

namespace distdl::observe {
namespace {
struct HealthFolder {
  HealthFolder() : path(std::filesystem::path(::testing::TempDir()) / ("health_log_" + std::to_string(::getpid()))) {
    std::filesystem::remove_all(path);
  }
  ~HealthFolder() { std::filesystem::remove_all(path); }
  HealthFolder(const HealthFolder&) = delete;
  HealthFolder& operator=(const HealthFolder&) = delete;
  std::filesystem::path path;
};

health::NodeHealth state_with(std::int64_t throttles) {
  health::NodeHealth health{.load = 0.5, .memory_pressure = 0.25, .throttles = throttles};
  health.gpus = health::GpuHealth{.gpus = 8, .hottest = 71, .throttled = 1, .corrected_errors = 3};
  return health;
}

TEST(HealthLog, KeepsTheStateOfEachNode) {
  const HealthFolder folder;
  std::atomic<std::int64_t> reads = 0;
  {
    HealthLog first(folder.path, "n1", 0, Milliseconds(1), [&] { return state_with(++reads); });
    HealthLog second(folder.path, "n2", 0, std::chrono::hours(1), [] { return health::NodeHealth{}; });
    const auto deadline = Deadline::after(paced(Milliseconds(10000)));
    while (reads < 3 && !deadline.expired()) std::this_thread::sleep_for(Milliseconds(1));
  }
  const auto rows = read_health(folder.path);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].host, "n1");
  EXPECT_EQ(rows[0].health.throttles, reads.load());
  EXPECT_EQ(rows[0].health.memory_pressure, 0.25);
  EXPECT_FALSE(rows[0].health.io_pressure);
  EXPECT_GT(rows[0].time, 1e9);
  ASSERT_TRUE(rows[0].health.gpus);
  EXPECT_EQ(rows[0].health.gpus->gpus, 8);
  EXPECT_EQ(rows[0].health.gpus->hottest, 71);
  EXPECT_EQ(rows[0].health.gpus->corrected_errors, 3);
  EXPECT_FALSE(rows[0].health.gpus->uncorrected_errors);
  EXPECT_EQ(rows[1].host, "n2") << "at once, whatever the period";
  EXPECT_FALSE(rows[1].health.load || rows[1].health.gpus);
}

TEST(HealthLog, EnergyGoesOnInLaterStarts) {
  const HealthFolder folder;
  for (int start = 0; start < 2; ++start) {
    std::atomic<int> reads = 0;  // 3 joules by each: the first row has none, the last one is written at the end
    const HealthLog log(folder.path, "n1", 0, std::chrono::hours(1),
                        [&] { return health::NodeHealth{.energy = 3.0 * reads++}; });
    const auto deadline = Deadline::after(paced(Milliseconds(10000)));
    while (reads == 0 && !deadline.expired()) std::this_thread::sleep_for(Milliseconds(1));
  }
  EXPECT_EQ(read_health(folder.path).at(0).health.energy, 6.0);
}

TEST(HealthLog, StaysBelowItsLimit) {
  const HealthFolder folder;
  constexpr std::uint64_t kMost = 4 << 10;
  std::atomic<std::int64_t> reads = 0;
  {
    const HealthLog log(folder.path, "n1", kMost, Milliseconds(0), [&] { return state_with(++reads); });
    const auto deadline = Deadline::after(paced(Milliseconds(10000)));
    while (reads < 200 && !deadline.expired()) std::this_thread::sleep_for(Milliseconds(1));
  }
  ASSERT_GE(reads, 200);
  const auto file = folder.path / "health" / "n1.jsonl";
  EXPECT_LE(std::filesystem::file_size(file), kMost);
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  const auto first = text.str().substr(0, text.str().find('\n'));
  EXPECT_NE(first.find("\"version\":2"), std::string::npos) << "the first row of a start is kept";
  const auto rows = health_rows_of(text.str());
  EXPECT_EQ(rows.front().health.throttles, 1);
  EXPECT_EQ(rows.back().health.throttles, reads.load());
}

TEST(HealthLog, OfDamagedFilesTellsNothing) {
  const HealthFolder folder;
  EXPECT_TRUE(read_health(folder.path).empty());
  std::filesystem::create_directories(folder.path / "health" / "folder.jsonl");
  const auto write = [&](const char* name, const std::string& text) {
    std::ofstream(folder.path / "health" / name) << text;
  };
  write("empty.jsonl", "");
  write("torn.jsonl", R"({"time":1,"host":"torn")");
  write("other.jsonl", "[1]\n");
  write("wrong.jsonl", "{\"time\":\"x\",\"host\":3}\n");
  write("half.jsonl", "{\"time\":1,\"host\":\"half\",\"load\":\"x\",\"gpus\":7}\n{\"time\":2");
  const auto rows = read_health(folder.path);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].host, "half");
  EXPECT_FALSE(rows[0].health.load);
}
}  // namespace
}  // namespace distdl::observe
