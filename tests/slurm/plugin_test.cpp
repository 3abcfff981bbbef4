// SPDX-License-Identifier: Apache-2.0
// How the plug-in is found and asked. A process loads it once, hence one test of its own program.
#include <ctime>
#include <filesystem>

#include <gtest/gtest.h>
#include <stdlib.h>

#include <distdl/base/plugin.hpp>
#include <distdl/slurm/plugin.hpp>

namespace distdl::slurm {
namespace {
TEST(SlurmPlugin, IsFoundInAnyFolderOfThePluginPath) {
  ::setenv("DISTDL_PLUGIN_PATH", "/nowhere:" DISTDL_FAKE_PLUGIN_DIR, 1);
  EXPECT_EQ(plugin_end_time("17"), std::chrono::system_clock::from_time_t(1900000017));
  EXPECT_EQ(plugin_end_time("17_2"), std::nullopt);
  ::unsetenv("DISTDL_PLUGIN_PATH");
}

#ifdef DISTDL_SLURM_PLUGIN
TEST(SlurmPlugin, OfThisBuildIsFound) {
  auto found = find_plugin("libdistdl_slurm.so");
  ASSERT_TRUE(found);
  EXPECT_TRUE(std::filesystem::equivalent(*found, DISTDL_SLURM_PLUGIN));
}
#endif
}  // namespace
}  // namespace distdl::slurm
