// SPDX-License-Identifier: Apache-2.0
#include <csignal>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <unistd.h>

#include <distdl/files/unfinished_file.hpp>

namespace distdl {
namespace {
namespace fs = std::filesystem;

class UnfinishedFiles : public testing::Test {
 protected:
  fs::path file(const char* name) const { return folder_ / name; }
  static void make(const fs::path& file) { std::ofstream(file) << "half"; }
  void SetUp() override {
    folder_ = fs::path(::testing::TempDir()) / ("distdl-unfinished-" + std::to_string(::getpid()));
    fs::create_directory(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path folder_;
};

TEST_F(UnfinishedFiles, AreRemovedByAnInterruptWhichEndsTheProcess) {
  for (const char* name : {"a", "b", "whole"}) make(file(name));
  const auto interrupt = [this] {
    const RemovesUnfinishedFiles on_interrupt;
    const UnfinishedFile a(file("a"));
    const UnfinishedFile b(file("b"));
    { const UnfinishedFile whole(file("whole")); }
    ::raise(SIGINT);
  };
  EXPECT_EXIT(interrupt(), testing::KilledBySignal(SIGINT), "distdl: interrupted");
  EXPECT_FALSE(fs::exists(file("a")));
  EXPECT_FALSE(fs::exists(file("b")));
  EXPECT_TRUE(fs::exists(file("whole")));
}

TEST_F(UnfinishedFiles, StayWhereASignalIsIgnored) {
  make(file("a"));
  const auto hang_up = [this] {
    ::signal(SIGHUP, SIG_IGN);
    const RemovesUnfinishedFiles on_interrupt;
    const UnfinishedFile a(file("a"));
    ::raise(SIGHUP);
    ::_exit(fs::exists(file("a")) ? 0 : 1);
  };
  EXPECT_EXIT(hang_up(), testing::ExitedWithCode(0), "");
}
}  // namespace
}  // namespace distdl
