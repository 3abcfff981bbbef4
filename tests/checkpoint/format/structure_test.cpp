// SPDX-License-Identifier: Apache-2.0
// What HDF5 may find in a checkpoint's file, and what not.
#include <fstream>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hdf5.h>
#include <sys/stat.h>

#include "tests/checkpoint/sample.hpp"
#include <distdl/base/errors.hpp>
#include <distdl/checkpoint/format/hdf5_structure.hpp>
#include <distdl/checkpoint/format/layout.hpp>

namespace distdl::checkpoint {
namespace {
using testing::ElementsAre;
using testing::HasSubstr;

class Structure : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(all_empty(save_as(root_.path(), 2, Step(1), make_sample(1))));
    manifest_ = load_manifest(real_file_system(), folder_);
  }
  std::vector<std::string> problems(std::size_t index = 0) { return structure_problems(folder_, manifest_, index); }
  /// Changes the first file as HDF5 would.
  void change(const std::function<void(hid_t)>& what) {
    hid_t file = H5Fopen((folder_ / "node0000.h5").c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    ASSERT_GE(file, 0);
    what(file);
    ASSERT_GE(H5Fclose(file), 0);
  }

  TemporaryFolder root_;
  std::filesystem::path folder_ = root_.path() / step_folder_name(Step(1));
  Manifest manifest_;
};

TEST_F(Structure, OfWhatWasSavedIsRight) {
  EXPECT_THAT(problems(0), ElementsAre());
  EXPECT_THAT(problems(1), ElementsAre());
}

TEST_F(Structure, LinksAreRefused) {
  change([](hid_t file) { H5Lcreate_soft("/t", file, "/soft", H5P_DEFAULT, H5P_DEFAULT); });
  EXPECT_THAT(problems(), ElementsAre("/soft: it is a link"));
  change([](hid_t file) {
    H5Ldelete(file, "/soft", H5P_DEFAULT);
    H5Lcreate_external("/etc/passwd", "/x", file, "/t/outside", H5P_DEFAULT, H5P_DEFAULT);
  });
  EXPECT_THAT(problems(), ElementsAre("/t/outside: it is a link"));
}

TEST_F(Structure, StrangeObjectsAreRefused) {
  change([](hid_t file) {
    hid_t space = H5Screate(H5S_SCALAR);
    H5Dclose(H5Dcreate2(file, "/t/more", H5T_STD_I8LE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    hid_t type = H5Tcopy(H5T_STD_I8LE);
    H5Tcommit2(file, "/type", type, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    H5Aclose(H5Acreate2(file, "note", H5T_STD_I8LE, space, H5P_DEFAULT, H5P_DEFAULT));
    H5Tclose(type);
    H5Sclose(space);
  });
  EXPECT_THAT(problems(), testing::Contains(HasSubstr("other attributes than step")));
  change([](hid_t file) { H5Adelete(file, "note"); });
  EXPECT_THAT(problems(), testing::UnorderedElementsAre("/t/more: the manifest does not list it",
                                                        "/type: it is neither a group nor a dataset"));
}

TEST_F(Structure, ADatasetInTheWrongPlaceIsSeen) {
  change([](hid_t file) {
    H5Lmove(file, "/t/parameter/conv1.weight/0", file, "/t/parameter/conv1.weight/x", H5P_DEFAULT, H5P_DEFAULT);
    H5Lmove(file, "/t/momentum/conv1.weight/0", file, "/t/parameter/conv1.weight/0", H5P_DEFAULT, H5P_DEFAULT);
    H5Lmove(file, "/t/parameter/conv1.weight/x", file, "/t/momentum/conv1.weight/0", H5P_DEFAULT, H5P_DEFAULT);
  });
  auto found = problems();
  ASSERT_FALSE(found.empty());
  EXPECT_THAT(found[0], testing::AllOf(HasSubstr("conv1.weight/0"), HasSubstr("the manifest says")));
  change([](hid_t file) { H5Ldelete(file, "/state", H5P_DEFAULT); });
  EXPECT_THAT(problems(), testing::Contains("/state/config is missing"));
}

TEST_F(Structure, StorageThatDoesNotAnswerIsNoDamage) {
  std::filesystem::remove(folder_ / "node0000.h5");
  ASSERT_EQ(::mkfifo((folder_ / "node0000.h5").c_str(), 0600), 0);  // whoever opens it waits
  try {
    structure_problems(folder_, manifest_, 0, std::chrono::seconds(1));
    ADD_FAILURE() << "it came to an end";
  } catch (const StorageError& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::storage);
    EXPECT_THAT(error.what(),
                testing::AllOf(HasSubstr("node0000.h5"), HasSubstr("within 1 s"), HasSubstr("try again")));
  }
}

TEST_F(Structure, AFileThatIsNoneBreaksNothing) {
  std::ofstream(folder_ / "node0000.h5") << "no HDF5";
  EXPECT_THAT(problems(), testing::Contains(HasSubstr("cannot open")));
  // Every byte of HDF5's own structures changed, one at a time: whatever happens, it happens to another process.
  auto good = folder_ / "node0001.h5";
  std::string text(std::filesystem::file_size(good), '\0');
  std::ifstream(good, std::ios::binary).read(text.data(), static_cast<std::streamsize>(text.size()));
  for (std::size_t at = 0; at < std::min<std::size_t>(text.size(), 2000); at += 37) {
    std::string bad = text;
    bad[at] = static_cast<char>(bad[at] ^ 0x55);
    std::ofstream(good, std::ios::binary) << bad;
    EXPECT_NO_THROW(problems(1));
  }
}
}  // namespace
}  // namespace distdl::checkpoint
