// SPDX-License-Identifier: Apache-2.0
#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <unistd.h>

#include <distdl/health/energy_meter.hpp>

namespace distdl::health {
namespace {
/// The counters of a machine of two processors.
class Counters : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = std::filesystem::path(::testing::TempDir()) / ("energy_" + std::to_string(::getpid()));
    std::filesystem::remove_all(root_);
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void put(const std::string& zone, const std::string& name, double joules) const {
    const auto folder = root_ / "sys/class/powercap" / zone;
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "name") << name << "\n";
    std::ofstream(folder / "max_energy_range_uj") << "1000000000\n";
    std::ofstream(folder / "energy_uj") << static_cast<long>(joules * 1e6) << "\n";
  }
  std::filesystem::path root_;
};

TEST_F(Counters, WithoutAnyNothingIsKnown) {
  EXPECT_FALSE(EnergyMeter(root_).read({}));
}

TEST_F(Counters, OfPackagesAndMemoryAreAddedAndMayBeginAgain) {
  put("intel-rapl:0", "package-0", 900);
  put("intel-rapl:0:0", "core", 1);
  put("intel-rapl:0:1", "dram", 10);
  put("intel-rapl:1", "package-1", 500);
  put("intel-rapl-mmio:0", "package-0", 900);
  EnergyMeter meter(root_);
  EXPECT_EQ(meter.read({}), 0);
  put("intel-rapl:0", "package-0", 50);  // after 1000
  put("intel-rapl:0:0", "core", 700);
  put("intel-rapl:0:1", "dram", 13);
  put("intel-rapl:1", "package-1", 520);
  put("intel-rapl-mmio:0", "package-0", 50);
  EXPECT_DOUBLE_EQ(meter.read({}).value(), 150 + 3 + 20);
}

TEST_F(Counters, OfGpusCountFromTheFirstReading) {
  EnergyMeter meter(root_);
  EXPECT_EQ(meter.read(5000), 0);
  EXPECT_EQ(meter.read(5250), 250);
  EXPECT_EQ(meter.read(100), 250) << "the driver has begun again";
  EXPECT_EQ(meter.read(130), 280);
}
}  // namespace
}  // namespace distdl::health
