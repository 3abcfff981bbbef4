// SPDX-License-Identifier: Apache-2.0
#include <fstream>

#include <gmock/gmock.h>
#include <sys/stat.h>

#include "tests/data/scratch_folder.hpp"
#include <distdl/base/errors.hpp>
#include <distdl/data/staged_file.hpp>

namespace distdl::data {
namespace {
using testing::HasSubstr;

class Staged : public testing::Test {
 protected:
  void write(const std::filesystem::path& target, Overwrite overwrite) {
    StagedFile staged(target, overwrite);
    std::ofstream(staged.temporary()) << "new";
    staged.publish();
  }
  std::string refusal(const std::filesystem::path& target) {
    try {
      write(target, Overwrite::replace);
    } catch (const StorageError& error) {
      return error.what();
    }
    return "no error";
  }

  ScratchFolder folder_;
};

TEST_F(Staged, ReplacesFilesAndLinksOnly) {
  const auto file = folder_ / "file", link = folder_ / "link", fifo = folder_ / "fifo";
  write(file, Overwrite::refuse);
  EXPECT_THROW(write(file, Overwrite::refuse), ConfigError);
  std::ofstream(file) << "older";
  std::filesystem::create_symlink(file, link);
  write(link, Overwrite::replace);
  EXPECT_FALSE(std::filesystem::is_symlink(link));
  EXPECT_EQ(std::filesystem::file_size(file), 5u) << "not through the link";
  write(file, Overwrite::replace);
  EXPECT_EQ(std::filesystem::file_size(file), 3u);
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_THAT(refusal(fifo), HasSubstr("fifo\" is a FIFO"));
  EXPECT_TRUE(std::filesystem::is_fifo(fifo));
  std::filesystem::create_directory(folder_ / "sub");
  EXPECT_THAT(refusal(folder_ / "sub"), HasSubstr("is a folder"));
}

TEST_F(Staged, NamesAFolderThatIsNotThere) {
  EXPECT_THAT(refusal(folder_ / "none" / "file"), HasSubstr("none\"; create it first"));
}
}  // namespace
}  // namespace distdl::data
