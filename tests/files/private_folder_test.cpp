// SPDX-License-Identifier: Apache-2.0
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <distdl/base/errors.hpp>
#include <distdl/base/random.hpp>
#include <distdl/files/private_folder.hpp>

namespace distdl {
namespace {
namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using ::testing::UnorderedElementsAre;

class PrivateFolderTest : public ::testing::Test {
 protected:
  void TearDown() override { fs::remove_all(around_); }
  fs::path around_ = fs::path(::testing::TempDir()) / ("private_" + random_hex(8)), folder_ = around_ / "deep" / "own";
};

TEST_F(PrivateFolderTest, KeepsWhatWasCreatedAndReplacesWhatWasPut) {
  EXPECT_FALSE(PrivateFolder::open(folder_));
  const auto folder = PrivateFolder::make(folder_);
  EXPECT_TRUE(folder.create("a", "first"));
  EXPECT_FALSE(folder.create("a", "second"));
  folder.put("b", "first");
  folder.put("b", "second");
  EXPECT_THAT(PrivateFolder::open(folder_)->names(), UnorderedElementsAre("a", "b"));
  EXPECT_EQ(folder.read("a", 100) + folder.read("b", 100), "firstsecond");
  EXPECT_THAT([&] { folder.read("c", 100); }, ThrowsMessage<StorageError>(HasSubstr("/own/c\"")));
  fs::create_directory(folder_ / "inner");
  fs::create_symlink(around_, folder_ / "inner" / "link");
  folder.remove();
  EXPECT_FALSE(fs::exists(folder_));
  EXPECT_TRUE(fs::exists(around_));
}

TEST_F(PrivateFolderTest, StaysTheOneThatWasOpened) {
  const auto folder = PrivateFolder::make(folder_);
  fs::rename(folder_, around_ / "moved");
  fs::create_directory(folder_);
  folder.put("a", "text");
  EXPECT_TRUE(fs::is_empty(folder_));
  EXPECT_THAT([&] { folder.names(); }, ThrowsMessage<StorageError>(HasSubstr("was replaced meanwhile")));
  EXPECT_THROW(folder.remove(), StorageError);
  EXPECT_EQ(folder.read("a", 100), "text");
}

TEST_F(PrivateFolderTest, ReadsNoLink) {
  const auto folder = PrivateFolder::make(folder_);
  fs::create_symlink(around_ / "elsewhere", folder_ / "a");
  EXPECT_THAT([&] { folder.read("a", 100); }, ThrowsMessage<StorageError>(HasSubstr("/own/a\" is a link, but")));
}

TEST_F(PrivateFolderTest, IsNotOpenedWhereOthersMayWrite) {
  PrivateFolder::make(folder_);
  fs::permissions(folder_, fs::perms::group_write, fs::perm_options::add);
  EXPECT_THAT([&] { PrivateFolder::open(folder_); },
              ThrowsMessage<StorageError>(HasSubstr("other users may write to")));
  PrivateFolder::make(folder_);
  EXPECT_EQ(fs::status(folder_).permissions(), fs::perms::owner_all);
}
}  // namespace
}  // namespace distdl
