// SPDX-License-Identifier: Apache-2.0
// HDF5's error stack as an exception that names purpose and object.
#include <gmock/gmock.h>

#include "tests/data/scratch_folder.hpp"
#include <distdl/base/errors.hpp>
#include <distdl/hdf5/objects/hdf5_error.hpp>

namespace distdl::hdf5 {
namespace {
using testing::MatchesRegex;

TEST(Error, IsNotThrownWhereTheCallSucceeded) {
  Lock lock;
  EXPECT_EQ(check(7, "count", "sheep"), 7);
}

TEST(Error, NamesPurposeObjectAndTheInnermostReason) {
  data::ScratchFolder folder;
  const std::string path = folder / "missing.h5";
  Lock lock;
  try {
    check(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), "open", path);
    FAIL() << "there is no such file";
  } catch (const StorageError& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::storage);
    EXPECT_THAT(error.what(), MatchesRegex("cannot open \".*missing\\.h5\" \\(HDF5: .*errno = 2.*\\)"));
  }
}

TEST(Error, IsForgottenOnceItIsRead) {
  Lock lock;
  H5Fopen("/nowhere/at/all.h5", H5F_ACC_RDONLY, H5P_DEFAULT);
  EXPECT_NE(failure_reason(), "the reason is unknown");
  EXPECT_EQ(failure_reason(), "the reason is unknown");
}

TEST(Error, NamesOpenObjects) {
  data::ScratchFolder folder;
  const std::string path = folder / "a.h5";
  Lock lock;
  File file(H5Fcreate(path.c_str(), H5F_ACC_EXCL, H5P_DEFAULT, H5P_DEFAULT));
  Object group(H5Gcreate2(file.get(), "inner", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  EXPECT_EQ(file_of(group.get()), path);
  EXPECT_EQ(name_of(group.get()), "/inner");
  EXPECT_EQ(file_of(H5I_INVALID_HID), "a file");
  EXPECT_EQ(name_of(H5I_INVALID_HID), "an object");
}

}  // namespace
}  // namespace distdl::hdf5
