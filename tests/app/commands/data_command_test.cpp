// SPDX-License-Identifier: Apache-2.0
#include <numeric>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>

#include "tests/data/scratch_folder.hpp"
#include <distdl/app/cli/command_table.hpp>
#include <distdl/base/errors.hpp>

namespace distdl::data {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

/// What `distdl data ARGUMENTS` prints to stdout; throws what it throws.
std::string run(const std::string& arguments) {
  app::CommandLine line("distdl", "");
  app::add_data_command(line);
  testing::internal::CaptureStdout();
  try {
    line.call("data " + arguments);
  } catch (...) {
    testing::internal::GetCapturedStdout();
    throw;
  }
  return testing::internal::GetCapturedStdout();
}

class DataCommand : public testing::Test {
 protected:
  std::string file(const std::string& name) const { return (folder_ / name).string(); }
  ScratchFolder folder_;
};

TEST_F(DataCommand, MakesShapesAndDescribesThem) {
  EXPECT_THAT(run("make shapes " + file("a.h5") + " --samples 50 --size 16 --classes 3 --seed 5 --noise 0.2"),
              ContainsRegex("50 images of \\(1, 16, 16\\), 3 classes, [0-9.]+ KiB\n"));
  std::string table = run("info " + file("a.h5") + " --verify --preview 2");
  EXPECT_THAT(table, HasSubstr("origin     shapes seed=5 noise=0.2"));
  EXPECT_THAT(table, ContainsRegex("size       [0-9.]+ KiB \\([0-9]+ bytes\\)\n"));
  EXPECT_THAT(table, HasSubstr("verified   2 chunks read, 0 damaged"));
  EXPECT_THAT(table, HasSubstr("class  samples\n    0 "));
  EXPECT_THAT(table, HasSubstr("sample 1, class "));
  EXPECT_THAT(table, Not(HasSubstr("sample 2, class ")));
}

TEST_F(DataCommand, PrintsJson) {
  run("make shapes " + file("a.h5") + " --samples 50");
  auto document = nlohmann::json::parse(run("info --json --verify " + file("a.h5")));
  EXPECT_EQ(document["kind"], "images");
  EXPECT_EQ(document["samples"], 50);
  EXPECT_EQ(document["shape"], (std::vector<int>{1, 28, 28}));
  EXPECT_EQ(document["classes"], 10);
  EXPECT_TRUE(document["damage"].empty());
  auto counts = document["samples_per_class"].get<std::vector<int>>();
  EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), 0), 50);
}

TEST_F(DataCommand, ImportsText) {
  write_file(folder_ / "a.txt", "hello");
  EXPECT_THAT(run("import text " + file("a.txt") + " " + file("a.h5")), HasSubstr("5 tokens, 256 symbols"));
  EXPECT_THAT(run("info --verify " + file("a.h5")), HasSubstr("kind       tokens"));
}

TEST_F(DataCommand, RefusesToImportWhatItCannotReadTwice) {
  ASSERT_EQ(::mkfifo(file("pipe").c_str(), 0600), 0);
  try {
    run("import tokens " + file("pipe") + " " + file("a.h5"));
    ADD_FAILURE() << "no error";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("pipe\" is a FIFO, but an import reads its file twice"));
  }
}

TEST_F(DataCommand, ImportsIdx) {
  using std::string_literals::operator""s;
  write_file(folder_ / "images", "\0\0\10\3\0\0\0\1\0\0\0\2\0\0\0\2abcd"s);
  write_file(folder_ / "labels", "\0\0\10\1\0\0\0\1\3"s);
  std::string command = "import idx " + file("images") + " " + file("labels") + " " + file("a.h5");
  EXPECT_THAT(run(command), HasSubstr("1 images of (1, 2, 2), 4 classes"));
  EXPECT_THROW(run(command), ConfigError);
  EXPECT_THAT(run(command + " --force --classes 7"), HasSubstr("7 classes"));
}

TEST_F(DataCommand, ReportsDamage) {
  run("make shapes " + file("a.h5") + " --samples 500");
  std::string bytes = read_file(folder_ / "a.h5");
  bytes[bytes.size() / 2] ^= 1;
  write_file(folder_ / "a.h5", bytes);
  testing::internal::CaptureStderr();
  try {
    run("info --verify " + file("a.h5"));
    ADD_FAILURE() << "no error";
  } catch (const StorageError& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::corrupt);
    EXPECT_THAT(error.what(), HasSubstr("damaged in 1 places"));
  }
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("of /images (samples"));
}

TEST_F(DataCommand, NeedsToKnowWhatToDo) {
  EXPECT_THROW(run(""), UsageError);
  EXPECT_THROW(run("make"), UsageError);
  EXPECT_THROW(run("make shapes"), UsageError);
  EXPECT_THROW(run("info --bogus x"), UsageError);
}

}  // namespace
}  // namespace distdl::data
