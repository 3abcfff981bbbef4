// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/checkpoint/sample.hpp"
#include <distdl/app/cli/command_table.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/checkpoint/format/layout.hpp>

// "distdl checkpoint ..." on a folder with two checkpoints.
namespace distdl::checkpoint {
namespace fs = std::filesystem;

struct Result {
  int code = 0;
  std::string out;
  std::string error{};
};

/// What the program does with these words.
inline Result run(const std::string& arguments) {
  app::CommandLine line("distdl", "");
  app::add_checkpoint_command(line);
  testing::internal::CaptureStdout();
  Result result;
  try {
    line.call("checkpoint " + arguments);
  } catch (const app::Ended& end) {
    result.code = end.code();
  } catch (const Error& error) {
    result.code = static_cast<int>(error.exit_code());
    result.error = error.what();
  }
  result.out = testing::internal::GetCapturedStdout();
  return result;
}

class CheckpointCommand : public testing::Test {
 protected:
  void SetUp() override {
    for (int step : {10, 20}) ASSERT_TRUE(all_empty(save_as(root, 2, Step(step), make_sample(1))));
  }
  TemporaryFolder run_;
  fs::path root = run_.path() / "checkpoints";
  fs::path newest = root / step_folder_name(Step(20));
};

}  // namespace distdl::checkpoint
