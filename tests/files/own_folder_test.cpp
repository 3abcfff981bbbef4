// SPDX-License-Identifier: Apache-2.0
// Nothing behind a link is created, written, renamed or deleted, and only what distdl left is deleted.
#include <cerrno>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <distdl/base/regular_file.hpp>
#include <distdl/files/own_folder.hpp>

namespace distdl {
namespace {
namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

bool is_json(const std::string& name) {
  return name.ends_with(".json");
}

/// A folder "here" with links to the folder "precious", which must stay as it is.
class OwnFolder : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(precious_ / "old");
    for (const auto& file : {precious_ / "a.json", precious_ / "old" / "b.json"}) std::ofstream(file) << "precious";
    fs::create_directories(here_);
    fs::create_directory_symlink(precious_, here_ / "link");
  }
  void TearDown() override {
    EXPECT_EQ(read_regular(precious_ / "a.json", 100), "precious");
    EXPECT_EQ(read_regular(precious_ / "old" / "b.json", 100), "precious");
    EXPECT_EQ(std::distance(fs::directory_iterator(precious_), {}), 2);
  }

  template <class Call>
  static std::string refusal(Call&& call) {
    try {
      call();
    } catch (const StorageError& error) {
      return error.what();
    }
    return "no error";
  }

  const ScratchFolder scratch_{resolved(testing::TempDir()), "own-folder"};
  const fs::path precious_ = scratch_.path() / "precious", here_ = scratch_.path() / "here";
};

TEST_F(OwnFolder, IsRemovedWithItsFiles) {
  fs::create_directory(here_ / "mine");
  std::ofstream(here_ / "mine" / "1.json") << "x";
  fs::create_symlink(precious_ / "a.json", here_ / "mine" / "2.json");
  EXPECT_TRUE(remove_own_folder(here_ / "mine", is_json));
  EXPECT_FALSE(fs::exists(here_ / "mine"));
}

TEST_F(OwnFolder, StaysWholeIfSomethingElseIsInIt) {
  fs::create_directories(here_ / "mine" / "folder.json");
  EXPECT_FALSE(remove_own_folder(here_ / "mine", is_json)) << "a folder in it is not entered";
  EXPECT_TRUE(fs::exists(here_ / "mine" / "folder.json"));
  fs::remove(here_ / "mine" / "folder.json");
  for (const char* name : {"1.json", "thesis.tex"}) std::ofstream(here_ / "mine" / name) << "x";
  EXPECT_FALSE(remove_own_folder(here_ / "mine", is_json));
  EXPECT_EQ(errno, ENOTEMPTY);
  EXPECT_TRUE(fs::exists(here_ / "mine" / "1.json"));
}

TEST_F(OwnFolder, OfAnotherUserStays) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make a folder of another user";
  fs::create_directory(here_ / "other");
  ASSERT_EQ(::chown((here_ / "other").c_str(), 65534, 65534), 0);
  EXPECT_FALSE(remove_own_folder(here_ / "other", is_json));
  EXPECT_EQ(errno, EPERM);
  EXPECT_TRUE(fs::exists(here_ / "other"));
}

TEST_F(OwnFolder, BehindALinkStays) {
  EXPECT_FALSE(remove_own_folder(here_ / "link", is_json));
  EXPECT_EQ(errno, ELOOP);
  EXPECT_FALSE(remove_own_folder(here_ / "link" / "old", is_json));
  EXPECT_EQ(errno, ELOOP);
}

TEST_F(OwnFolder, NothingIsMadeOrChangedBehindALink) {
  auto& files = real_file_system();
  const auto says = AllOf(HasSubstr((here_ / "link").string() + "\" is a link"), HasSubstr("remove it"));
  EXPECT_THAT(refusal([&] { make_folders(files, here_ / "link" / "new"); }), says);
  EXPECT_THAT(refusal([&] { replace_text(files, here_ / "link" / "a.json", "x"); }), says);
  EXPECT_THAT(refusal([&] { create_whole(here_ / "link" / "new", "x"); }), says);
  EXPECT_THAT(refusal([&] { create_file(here_ / "link" / "new"); }), says);
  EXPECT_THAT(refusal([&] { open_to_append(here_ / "link" / "a.json"); }), says);
  EXPECT_FALSE(remove_file(here_ / "link" / "a.json"));
  EXPECT_THAT(refusal([&] { ScratchFolder(here_ / "link", "x"); }), says);
}

TEST_F(OwnFolder, OnlyARegularFileIsAppendedTo) {
  fs::create_symlink(precious_ / "a.json", here_ / "file-link");
  ASSERT_EQ(::mkfifo((here_ / "fifo").c_str(), 0600), 0);
  EXPECT_THAT(refusal([&] { open_to_append(here_ / "file-link"); }), HasSubstr("is a link, but a regular file"));
  EXPECT_THAT(refusal([&] { open_to_append(here_ / "fifo"); }), HasSubstr("is a FIFO, but a regular file"));
  EXPECT_THAT(refusal([&] { open_to_append(here_); }), HasSubstr("is a folder, but a regular file"));
  EXPECT_EQ(::write(open_to_append(here_ / "new").get(), "ab", 2), 2);
  EXPECT_EQ(::write(open_to_append(here_ / "new").get(), "c", 1), 1);
  EXPECT_EQ(read_regular(here_ / "new", 100), "abc");
}

TEST_F(OwnFolder, AWholeFileIsCreatedByTheFirstAlone) {
  EXPECT_TRUE(create_whole(here_ / "one", "first"));
  EXPECT_FALSE(create_whole(here_ / "one", "second"));
  EXPECT_EQ(read_regular(here_ / "one", 100), "first");
  EXPECT_FALSE(create_whole(here_ / "link", "a link is there"));
  EXPECT_EQ(names_in(here_).size(), 2U) << "nothing unfinished is left";
}
}  // namespace
}  // namespace distdl
