// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <sys/stat.h>

#include "event_bytes.hpp"
#include <distdl/base/random.hpp>
#include <distdl/program/progress_file.hpp>

namespace distdl::program {
namespace {
namespace fs = std::filesystem;

class ProgressFiles : public testing::Test {
 protected:
  ProgressFiles() { fs::create_directory(folder_); }
  ~ProgressFiles() override { fs::remove_all(folder_); }
  ProgressFiles(const ProgressFiles&) = delete;
  ProgressFiles& operator=(const ProgressFiles&) = delete;

  static void append(const fs::path& file, const std::string& text) {
    std::ofstream(file, std::ios::app | std::ios::binary) << text;
  }
  /// Steps that are found, "alive" where there is none, "" without a change.
  static std::string look(ProgressFile& file) {
    const auto seen = file.look();
    std::string text = seen.has_changed && seen.facts.empty() ? "alive" : "";
    for (const auto& facts : seen.facts)
      text += std::to_string(facts.step.value_or(-1)) + (facts.metrics.empty() ? " " : "+ ");
    return text;
  }

  fs::path folder_ = fs::temp_directory_path() / ("progress-" + random_hex(6));
  Patterns patterns_{{.progress_pattern = R"(step (\d+))"}};
};

TEST_F(ProgressFiles, ChangesAreSignsOfLife) {
  const auto path = folder_ / "progress";
  append(path, "9\n");
  ProgressFile file(path, patterns_);
  EXPECT_EQ(look(file), "") << "that of an earlier start";
  append(path, "10\n\n");
  EXPECT_EQ(look(file), "10 ");
  EXPECT_EQ(look(file), "");
  append(path, "at step 11 of many\r\n");
  EXPECT_EQ(look(file), "11 ");
  append(path, "12 or so");
  EXPECT_EQ(look(file), "alive");
  fs::resize_file(path, 0);
  EXPECT_EQ(look(file), "alive");
  fs::remove(path);
  EXPECT_EQ(look(file), "");
}

TEST_F(ProgressFiles, OddFilesTellNothing) {
  const auto path = folder_ / "progress";
  ProgressFile file(path, patterns_);
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  look(file);  // and does not wait for a writer
  fs::remove(path);
  append(folder_ / "other", "7\n");
  fs::create_symlink(folder_ / "other", path);
  EXPECT_THAT(look(file), testing::Not(testing::HasSubstr("7")));
  fs::remove(path);
  fs::create_directory(path);
  EXPECT_EQ(look(file), "");
}

TEST_F(ProgressFiles, AFolderMayHaveEventFiles) {
  const auto path = folder_ / "events.out.tfevents.1.host";
  append(path, record_of(event_of(1, "loss", 1)));
  ProgressFile file(folder_, patterns_);
  append(path, record_of(event_of(2, "loss", 1)) + record_of(event_of(2, "lr", 1)));
  append(folder_ / "other", "7\n");
  EXPECT_EQ(look(file), "2+ ");
  const auto next = folder_ / "events.out.tfevents.2.host";
  const std::string bytes = record_of(event_of(3, "loss", 1));
  append(next, bytes.substr(0, 20));
  EXPECT_EQ(look(file), "alive");
  append(next, bytes.substr(20) + "this is no record at all");
  EXPECT_EQ(look(file), "3+ ");
  append(next, "xxxxxxxxxxxxxxxxxxxxxx");
  EXPECT_EQ(look(file), "alive");
  append(path, record_of(event_of(4, "loss", 1)));
  EXPECT_EQ(look(file), "4+ ");
}
}  // namespace
}  // namespace distdl::program
