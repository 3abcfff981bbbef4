// SPDX-License-Identifier: Apache-2.0
// The format seen from outside: Python with h5py, knowing nothing but docs/data-format.md.
#include <cstdlib>
#include <optional>

#include <gtest/gtest.h>

#include "tests/data/scratch_folder.hpp"

namespace distdl::data {
namespace {

std::optional<std::string> python_with_h5py() {
  for (std::string python : {"python3", "/usr/bin/python3"})
    if (std::system((python + " -c 'import h5py, numpy' >/dev/null 2>&1").c_str()) == 0) return python;
  return std::nullopt;
}

TEST(H5py, SeesTheSameNumbersAndChecksums) {
  auto python = python_with_h5py();
  if (!python) GTEST_SKIP() << "no python3 with h5py (Debian: python3-h5py)";
  ScratchFolder folder;
  write_small_images(folder / "a.h5", 1300);
  std::string command = *python + " " DISTDL_SOURCE_DIR "/tests/data/check_with_h5py.py " + (folder / "a.h5").string();
  EXPECT_EQ(std::system(command.c_str()), 0) << command;
}

}  // namespace
}  // namespace distdl::data
