// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>

#include <gtest/gtest.h>

#include <distdl/health/gpu_health.hpp>

namespace distdl::health {
namespace {
TEST(GpuHealth, IsThatOfAllGpusTogether) {
  const auto monitor = GpuMonitor::open(FAKE_NVML);
  ASSERT_TRUE(monitor);
  const GpuHealth health = monitor->read();
  EXPECT_EQ(health.gpus, 3);
  EXPECT_DOUBLE_EQ(health.energy.value_or(0), 4) << "of those that tell";
  EXPECT_EQ(health.throttled, 1);
  EXPECT_EQ(health.hottest, 88);
  EXPECT_EQ(health.corrected_errors, 15);
  EXPECT_EQ(health.uncorrected_errors, 0);
}

TEST(GpuHealth, ErrorsWithoutNumberAreMany) {
  const auto monitor = GpuMonitor::open(FAKE_NVML);
  ASSERT_TRUE(monitor);
  ::setenv("FAKE_NVML_ERRORS", "1", 1);
  const GpuHealth health = monitor->read();
  ::unsetenv("FAKE_NVML_ERRORS");
  EXPECT_EQ(health.corrected_errors, GpuHealth::kMostErrors);
  EXPECT_EQ(health.uncorrected_errors, GpuHealth::kMostErrors);
}

TEST(GpuHealth, IsNotThereWithoutTheLibrary) {
  EXPECT_FALSE(GpuMonitor::open("libno-such-library.so.1"));
  EXPECT_FALSE(GpuMonitor::open("libm.so.6")) << "another library";
}
}  // namespace
}  // namespace distdl::health
