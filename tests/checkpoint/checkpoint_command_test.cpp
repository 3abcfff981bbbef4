// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/checkpoint/sample.hpp"
#include <distdl/checkpoint/layout.hpp>

namespace distdl::app {
void add_checkpoint_command(CLI::App& app);
}

namespace distdl::checkpoint {
namespace {
namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::MatchesRegex;

struct Result {
  int code = 0;
  std::string out;
};

Result run(const std::string& arguments) {
  CLI::App app;
  app::add_checkpoint_command(app);
  testing::internal::CaptureStdout();
  Result result;
  try {
    app.parse("checkpoint " + arguments);
  } catch (const CLI::RuntimeError& error) {
    result.code = error.get_exit_code();
  } catch (const Error& error) {
    result.code = static_cast<int>(error.exit_code());
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

TEST_F(CheckpointCommand, LsListsAllAndMarksDamage) {
  fs::remove(newest / kManifestName);
  EXPECT_THAT(run("ls " + root.string()).out, testing::AllOf(HasSubstr("\n          10 "), HasSubstr("20  damaged")));
  auto rows = nlohmann::json::parse(run("ls --json " + root.string()).out);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0]["world_size"], 2);
  EXPECT_EQ(rows[1]["damaged"], true);
}

TEST_F(CheckpointCommand, ShowTellsTensorsAndState) {
  EXPECT_THAT(run("show " + run_.path().string()).out,
              testing::AllOf(HasSubstr("step     20"), HasSubstr("parameter/conv1.weight  f32    (8, 3, 5, 5)"),
                             HasSubstr("data.cursor (4 bytes)")));
  auto document = nlohmann::json::parse(run("show --json " + root.string() + "/").out);
  EXPECT_EQ(document["state"]["data.cursor"], "1234");
  EXPECT_EQ(document["tensors"][0]["shape"], (std::vector<int>{8, 3, 5, 5}));
}

TEST_F(CheckpointCommand, DigestIsOneLine) {
  Result all = run("digest " + root.string()), one = run("digest " + newest.string());
  EXPECT_THAT(all.out, MatchesRegex("step 20 sha256 [0-9a-f]{64}\n"));
  EXPECT_EQ(all.out, one.out);
  EXPECT_THAT(run("digest " + (root / step_folder_name(Step(10))).string()).out, HasSubstr(all.out.substr(8)));
  EXPECT_EQ(nlohmann::json::parse(run("digest --json " + root.string()).out)["step"], 20);
}

TEST_F(CheckpointCommand, VerifyAnswersWithExitCodes) {
  EXPECT_EQ(run("verify " + root.string()).code, 0);
  fs::remove(newest / "node0000.h5");
  EXPECT_EQ(run("verify " + root.string()).code, 3);
  EXPECT_EQ(run("verify " + (root / step_folder_name(Step(10))).string()).code, 0);
  fs::resize_file(newest / "node0001.h5", 7);
  Result result = run("verify --json " + root.string());
  EXPECT_EQ(result.code, 2);
  auto document = nlohmann::json::parse(result.out);
  EXPECT_EQ(document[0]["ok"], true);
  EXPECT_EQ(document[1]["ok"], false);
  EXPECT_EQ(document[1]["findings"][1]["file"], "node0001.h5");
}

TEST_F(CheckpointCommand, MissingFoldersAreIncomplete) {
  TemporaryFolder empty;
  for (const char* action : {"show ", "verify ", "digest "}) EXPECT_EQ(run(action + empty.path().string()).code, 3);
  EXPECT_EQ(run("ls /does/not/exist").code, 3);
}
}  // namespace
}  // namespace distdl::checkpoint
