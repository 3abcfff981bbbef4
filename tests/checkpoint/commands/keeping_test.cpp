// SPDX-License-Identifier: Apache-2.0
// distdl checkpoint: gc, tag.
#include <fstream>
#include <map>

#include <fcntl.h>
#include <linux/fs.h>
#include <nlohmann/json.hpp>
#include <sys/ioctl.h>

#include "tests/checkpoint/commands/command_fixture.hpp"
#include <distdl/base/file_descriptor.hpp>
#include <distdl/files/file_operations.hpp>

namespace distdl::checkpoint {
namespace {
using testing::HasSubstr;

TEST_F(CheckpointCommand, TagsAreGivenMovedAndTakenAway) {
  EXPECT_EQ(run("tag 11 best " + root.string()).code, 3);
  EXPECT_EQ(run("tag 10 ../x " + root.string()).code, 64);
  EXPECT_EQ(run("tag 10 best " + root.string()).code, 0);
  EXPECT_EQ(run("tag 20 best " + root.string()).code, 64);
  auto moved = nlohmann::json::parse(run("tag 20 best --move --json " + root.string()).out);
  EXPECT_EQ(moved["tags"], (std::vector<std::string>{"best"}));
  EXPECT_EQ(run("tag 10 best --remove " + root.string()).code, 64);
  EXPECT_THAT(run("tag 20 best --remove " + root.string()).out, HasSubstr("no tags"));
}

TEST_F(CheckpointCommand, GcKeepsTheRuleOfTheLastRunAndSaysWhy) {
  for (int step : {30, 40, 50})
    ASSERT_TRUE(all_empty(save_as(root, 1, Step(step), make_sample(1), false, {.keep = 5})));
  fs::remove(root / kHistoryName);  // it may be lost
  run("tag 10 best " + root.string());
  EXPECT_EQ(run("gc " + root.string()).code, 0);
  EXPECT_EQ(step_folders(root).size(), 5u);  // that run keeps 5
  EXPECT_EQ(run("gc --keep 1 " + root.string()).code, 64);
  auto would = nlohmann::json::parse(run("gc --dry-run --keep 2 --json " + root.string()).out);
  EXPECT_EQ(step_folders(root).size(), 5u);
  std::map<int, bool> stays;
  for (const auto& row : would["checkpoints"]) stays[row["step"]] = row["stays"];
  EXPECT_EQ(stays, (std::map<int, bool>{{10, true}, {20, false}, {30, false}, {40, true}, {50, true}}));
  fs::create_directory(root / ".trash-0123");
  fs::create_directory(root / ".stage-60.0123456789abcdef");
  fs::create_directory(root / ".stage-70.0123456789abcdef");
  fs::last_write_time(root / ".stage-60.0123456789abcdef", fs::file_time_type::clock::now() - std::chrono::hours(25));
  Result done = run("gc --keep 2 " + root.string());
  EXPECT_EQ(done.code, 0);
  EXPECT_THAT(done.out,
              testing::AllOf(HasSubstr("stays     tagged best"), HasSubstr("deleted   2 newer ones"),
                             HasSubstr("MiB of checkpoints deleted\n"), HasSubstr("a run may be writing it")));
  std::vector<std::int64_t> left;
  for (const auto& [step, folder] : step_folders(root)) left.push_back(step.value);
  EXPECT_EQ(left, (std::vector<std::int64_t>{10, 40, 50}));
  EXPECT_EQ(entries_with_prefix(root, ".stage-").size(), 1u);
  EXPECT_TRUE(entries_with_prefix(root, ".trash-").empty());
}

TEST_F(CheckpointCommand, GcNeverCountsDamagedOnes) {
  for (int step : {30, 40}) ASSERT_TRUE(all_empty(save_as(root, 1, Step(step), make_sample(1))));
  fs::resize_file(root / step_folder_name(Step(40)) / "node0000.h5", 3);
  Result done = run("gc --keep 2 " + root.string());
  EXPECT_THAT(done.out, HasSubstr("40  stays     damaged; it does not count"));
  EXPECT_EQ(step_folders(root).size(), 3u);  // 20, 30 and the damaged one
}

/// Lets nobody delete a file, root neither, or lets it again; false if that is not possible here.
bool make_immutable(const fs::path& file, bool yes) {
  const FileDescriptor handle(::open(file.c_str(), O_RDONLY));
  int flags = 0;
  if (::ioctl(handle.get(), FS_IOC_GETFLAGS, &flags) != 0) return false;
  flags = yes ? flags | FS_IMMUTABLE_FL : flags & ~FS_IMMUTABLE_FL;
  return ::ioctl(handle.get(), FS_IOC_SETFLAGS, &flags) == 0;
}

TEST_F(CheckpointCommand, GcTellsWhatItCannotDeleteAndWhy) {
  fs::create_directory(root / ".trash-0123");
  std::ofstream(root / ".trash-0123" / "node0000.h5") << "x";
  if (!make_immutable(root / ".trash-0123" / "node0000.h5", true)) GTEST_SKIP() << "no file can be made immutable here";
  Result result = run("gc " + root.string());
  fs::path left = entries_with_prefix(root, ".trash-").at(0);
  EXPECT_TRUE(make_immutable(left / "node0000.h5", false));
  EXPECT_EQ(result.code, 74);
  EXPECT_THAT(result.error, testing::AllOf(HasSubstr("\"" + left.string() + "\": Operation not permitted"),
                                           HasSubstr("Run gc again")));
  EXPECT_EQ(run("gc " + root.string()).code, 0);
}

}  // namespace
}  // namespace distdl::checkpoint
