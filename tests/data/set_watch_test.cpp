// SPDX-License-Identifier: Apache-2.0
#include <fstream>
#include <vector>

#include <gmock/gmock.h>

#include "tests/data/scratch_folder.hpp"
#include <distdl/base/errors.hpp>
#include <distdl/data/images.hpp>
#include <distdl/data/set_watch.hpp>
#include <distdl/data/set_writer.hpp>
#include <distdl/data/tokens.hpp>

namespace distdl::data {
namespace {
namespace fs = std::filesystem;

/// Sets of 40 samples that differ in one label, or only in how many classes they announce; or a cut off one.
class Changes : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    write(set_, 7, 1);
    watch_.emplace(set_);
    // Open all the while, as in a run.
    if (GetParam() == "images") {
      images_.emplace(ImageSet::open(set_, 1));
      watch_->opened(images_->digest());
    } else {
      tokens_.emplace(TokenSet::open(set_));
      watch_->opened(tokens_->digest());
    }
  }
  void write(const fs::path& file, std::int64_t classes, std::uint8_t first) {
    const bool images = GetParam() == "images";
    Description about{.kind = GetParam(), .origin = "test", .samples = 40, .classes = classes};
    if (images) about.shape = {1, 3, 3};
    SetWriter writer(file, about, Overwrite::replace);
    const std::vector<std::uint8_t> values(images ? 360 : 40, 2);
    std::vector<std::int32_t> labels(40, 3);
    labels[0] = first;
    if (images) {
      writer.append(values, labels);
    } else {
      writer.append(std::vector<std::uint8_t>{first});
      writer.append(std::span(values).subspan(1));
    }
    writer.commit();
  }
  std::string bytes_of(std::int64_t classes, std::uint8_t first) {
    write(folder_ / "other.h5", classes, first);
    return read_file(folder_ / "other.h5");
  }
  /// In the same inode.
  void overwrite(const std::string& bytes) { std::ofstream(set_, std::ios::binary | std::ios::trunc) << bytes; }
  ExitCode seen() {
    try {
      watch_->require_unchanged();
      return ExitCode::ok;
    } catch (const StorageError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("was changed while the run reads it: "));
      return error.exit_code();
    }
  }

  ScratchFolder folder_;
  fs::path set_ = folder_ / "a.h5";
  std::optional<ImageSet> images_;
  std::optional<TokenSet> tokens_;
  std::optional<SetWatch> watch_;
};
INSTANTIATE_TEST_SUITE_P(SetWatch, Changes, testing::Values("images", "tokens"),
                         [](const auto& kind) { return kind.param; });

TEST_P(Changes, WhatLeavesTheDigestIsFine) {
  EXPECT_EQ(seen(), ExitCode::ok);
  fs::last_write_time(set_, fs::file_time_type::clock::now());
  EXPECT_EQ(seen(), ExitCode::ok);
  fs::permissions(set_, fs::perms::owner_read);
  fs::create_hard_link(set_, folder_ / "backup.h5");
  EXPECT_EQ(seen(), ExitCode::ok);
  fs::permissions(set_, fs::perms::owner_all);
  overwrite(bytes_of(7, 1));
  EXPECT_EQ(seen(), ExitCode::ok);
  write(set_, 7, 1);  // renamed to there
  EXPECT_EQ(seen(), ExitCode::ok);
}

TEST_P(Changes, OtherSamplesAreNoticedWrittenInPlaceOrRenamedToThere) {
  overwrite(bytes_of(7, 2));
  EXPECT_EQ(seen(), ExitCode::incompatible);
  EXPECT_EQ(seen(), ExitCode::incompatible) << "as long as it is so";
  overwrite(bytes_of(7, 1));
  EXPECT_EQ(seen(), ExitCode::ok);
  write(set_, 7, 2);
  EXPECT_EQ(seen(), ExitCode::incompatible);
}

TEST_P(Changes, AnotherDescriptionInPlaceIsNoticedThoughHdf5RemembersTheFormer) {
  const auto other = bytes_of(8, 1);
  ASSERT_EQ(other.size(), fs::file_size(set_));
  overwrite(other);
  EXPECT_EQ(seen(), ExitCode::incompatible);
}

TEST_P(Changes, ACutOffFileIsNoticed) {
  fs::resize_file(set_, fs::file_size(set_) / 2);
  EXPECT_EQ(seen(), ExitCode::corrupt);
  overwrite("");
  EXPECT_EQ(seen(), ExitCode::incompatible) << "no HDF5 file";
}

TEST_P(Changes, AFileThatIsGoneIsNoChangeButAnotherInItsPlaceIs) {
  fs::remove(set_);
  EXPECT_EQ(seen(), ExitCode::ok);
  write(set_, 7, 1);
  EXPECT_EQ(seen(), ExitCode::ok);
  fs::remove(set_);
  EXPECT_EQ(seen(), ExitCode::ok);
  write(set_, 7, 2);
  EXPECT_EQ(seen(), ExitCode::incompatible);
}
}  // namespace
}  // namespace distdl::data
