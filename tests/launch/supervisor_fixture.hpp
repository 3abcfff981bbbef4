// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include <distdl/launch/supervisor.hpp>

namespace distdl::launch {

/// In a folder of its own.
class Supervisor : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        std::filesystem::path(::testing::TempDir()) / ("supervisor_" + std::to_string(::getpid()) + "_" +
                                                       ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  /// A worker that runs this shell text.
  LaunchSpec spec(const std::string& text, int ranks = 2) {
    auto script = folder_ / "worker";
    std::ofstream(script) << "#!/bin/sh\ncd " << folder_.string() << "\n" << text << "\n";
    std::filesystem::permissions(script, std::filesystem::perms::owner_all);
    return {{script.string()}, folder_ / "checkpoints", ranks, {}};
  }
  /// The same; its launches say in the file "starts" from where they go on.
  LaunchSpec spec_with_starts(const std::string& text) {
    auto work = spec(text, 1);
    work.starts = [this] {
      std::vector<Step> steps;
      std::ifstream in(folder_ / "starts");
      for (std::int64_t step = 0; in >> step;) steps.emplace_back(step);
      return steps;
    };
    return work;
  }
  std::size_t lines(const std::string& name) {
    std::ifstream in(folder_ / name);
    std::size_t count = 0;
    for (std::string line; std::getline(in, line);) ++count;
    return count;
  }
  /// What the launches wrote.
  std::vector<std::string> said() {
    std::ifstream in(folder_ / "launches");
    std::vector<std::string> lines;
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
  }
  std::filesystem::path folder_;
};

}  // namespace distdl::launch
