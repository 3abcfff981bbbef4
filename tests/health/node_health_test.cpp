// SPDX-License-Identifier: Apache-2.0
#include <fstream>

#include <gtest/gtest.h>
#include <unistd.h>

#include <distdl/health/node_health.hpp>

namespace distdl::health {
namespace {
/// Files of a system.
class System {
 public:
  System() : folder_(std::filesystem::path(::testing::TempDir()) / ("health_" + std::to_string(::getpid()))) {
    std::filesystem::remove_all(folder_);
  }
  ~System() { std::filesystem::remove_all(folder_); }
  System(const System&) = delete;
  System& operator=(const System&) = delete;
  void put(const std::string& name, const std::string& text) const {
    const auto file = folder_ / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  NodeHealth read() const { return read_node_health(folder_); }

 private:
  std::filesystem::path folder_;
};

TEST(NodeHealth, OfASystemThatTellsNothingIsEmpty) {
  const NodeHealth health = System().read();
  EXPECT_FALSE(health.load || health.cpu_pressure || health.memory_pressure || health.io_pressure ||
               health.free_memory || health.throttles || health.corrected_errors || health.uncorrected_errors ||
               health.gpus);
}

TEST(NodeHealth, IsReadFromTheSystemsFiles) {
  System system;
  system.put("proc/loadavg", "6.00 5.00 4.00 3/200 4711\n");
  system.put("proc/meminfo", "MemTotal:    1000 kB\nMemFree:  100 kB\nMemAvailable:  250 kB\nHugePages_Total: 0\n");
  system.put("proc/pressure/cpu", "some avg10=1.00 avg60=50.00 avg300=2.00 total=9\nfull avg10=0 avg60=7.00\n");
  system.put("proc/pressure/memory", "some avg10=1.00 avg60=12.50 avg300=2.00 total=9\n");
  system.put("proc/pressure/io", "nonsense\n");
  for (const char* name : {"cpu0", "cpu1"})
    system.put(std::string("sys/devices/system/cpu/") + name + "/thermal_throttle/core_throttle_count", "21\n");
  system.put("sys/devices/system/cpu/cpufreq/none", "");
  system.put("sys/devices/system/edac/mc/mc0/ce_count", "5\n");
  system.put("sys/devices/system/edac/mc/mc0/ue_count", "0\n");
  system.put("sys/devices/system/edac/mc/mc1/ce_count", "2\n");
  system.put("sys/devices/system/edac/mc/power/ce_count", "1000\n");
  const NodeHealth health = system.read();
  EXPECT_EQ(health.load, 3.0) << "per processor";
  EXPECT_EQ(health.cpu_pressure, 0.5);
  EXPECT_EQ(health.memory_pressure, 0.125);
  EXPECT_FALSE(health.io_pressure);
  EXPECT_EQ(health.free_memory, 0.25);
  EXPECT_EQ(health.throttles, 42);
  EXPECT_EQ(health.corrected_errors, 7);
  EXPECT_EQ(health.uncorrected_errors, 0);
}

TEST(NodeHealth, OfThisMachineHasItsLoadAndMemory) {
  const NodeHealth health = read_node_health();
  ASSERT_TRUE(health.load && health.free_memory);
  EXPECT_GE(*health.load, 0);
  EXPECT_GT(*health.free_memory, 0);
}
}  // namespace
}  // namespace distdl::health
