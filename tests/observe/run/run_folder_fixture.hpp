// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <distdl/observe/run/run_folder.hpp>

namespace distdl::observe {

class Folder : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) / ("observe_" + std::to_string(::getpid()));
    std::filesystem::remove_all(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  static records::Started started(std::int64_t from) {
    records::Started event{{}, Step(100), 2, 50, 5, "reference"};
    if (from > 0) event.resumed_from = Step(from);
    return event;
  }
  /// One start of a run of 100 steps that resumes at `from` and dies, or stops, or ends after step `to`.
  template <class... Last>
  void run(std::int64_t from, std::int64_t to, const Last&... last) {
    RunFolder records(folder_, restart_++);
    auto start = started(from);
    start.start = static_cast<std::uint64_t>(restart_);
    start.has_mixed_backends = has_mixed_backends_;
    records.on(start);
    for (std::int64_t step = from + 1; step <= to; ++step)
      records.on(records::StepDone{Step(step), step * 0.1, 1.0 / step, 0.5, 0.01, 100.0 + step});
    (records.on(last), ...);
  }
  std::vector<std::string> lines(const char* name) const {
    std::vector<std::string> all;
    std::ifstream in(folder_ / name);
    for (std::string line; std::getline(in, line);) all.push_back(line);
    return all;
  }
  nlohmann::json last_line(const char* name) const { return nlohmann::json::parse(lines(name).back()); }
  void append(const char* name, const std::string& text) const { std::ofstream(folder_ / name, std::ios::app) << text; }

  std::filesystem::path folder_;
  int restart_ = 0;
  bool has_mixed_backends_ = false;
};

inline const records::Finished kFinished{Step(100), 0.25, 0.96875};

}  // namespace distdl::observe
