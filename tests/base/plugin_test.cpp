// SPDX-License-Identifier: Apache-2.0
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <distdl/base/plugin.hpp>

namespace distdl {
namespace {
using ::testing::ElementsAre;

class PluginPath : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) / ("plugin_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_ / "libdistdl_a.so");  // a folder is no plug-in
    std::ofstream(folder_ / "libdistdl_b.so") << "x";
  }
  void TearDown() override {
    ::unsetenv("DISTDL_PLUGIN_PATH");
    std::filesystem::remove_all(folder_);
  }
  static void set(const std::string& value) { ::setenv("DISTDL_PLUGIN_PATH", value.c_str(), 1); }
  std::filesystem::path folder_;
};

TEST_F(PluginPath, IsAListOfFoldersAndTheOnlyOnes) {
  set("/nowhere/a::/nowhere/b/");
  EXPECT_THAT(plugin_candidates("libdistdl_b.so"),
              ElementsAre("/nowhere/a/libdistdl_b.so", "/nowhere/b/libdistdl_b.so"));
  EXPECT_EQ(find_plugin("libdistdl_b.so"), std::nullopt);
}

TEST_F(PluginPath, GivesTheFirstFile) {
  set("/nowhere:" + folder_.string());
  EXPECT_EQ(find_plugin("libdistdl_b.so"), folder_ / "libdistdl_b.so");
  EXPECT_EQ(find_plugin("libdistdl_a.so"), std::nullopt);
}

TEST_F(PluginPath, IsNotNeededInABuildOrInstallTree) {
  auto lib = std::filesystem::canonical("/proc/self/exe").parent_path().parent_path() / "lib";
  EXPECT_THAT(plugin_candidates("libdistdl_b.so"), ::testing::Contains(lib / "distdl/libdistdl_b.so"));
}
}  // namespace
}  // namespace distdl
