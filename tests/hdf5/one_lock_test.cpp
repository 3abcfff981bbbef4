// SPDX-License-Identifier: Apache-2.0
// Data sets and checkpoints take turns by one lock, and neither holds it for long.
#include <atomic>
#include <thread>

#include <gmock/gmock.h>

#include "tests/checkpoint/sample.hpp"
#include "tests/data/scratch_folder.hpp"
#include "tests/hdf5/waiting.hpp"
#include <distdl/base/errors.hpp>
#include <distdl/checkpoint/exchange/export.hpp>
#include <distdl/checkpoint/format/hdf5_skeleton.hpp>
#include <distdl/checkpoint/format/hdf5_structure.hpp>
#include <distdl/data/images.hpp>
#include <distdl/data/set_writer.hpp>

namespace distdl {
namespace {
using hdf5::waits_for_the_lock;
using testing::ElementsAre;

class OneLock : public testing::Test {
 protected:
  std::filesystem::path data_set() {
    auto file = folder_ / "a.h5";
    data::write_small_images(file, 1300);
    return file;
  }
  data::ScratchFolder folder_;
};

TEST_F(OneLock, KeepsReadersOfDataSetsOut) {
  auto file = data_set();
  EXPECT_TRUE(waits_for_the_lock([&] { data::describe_file(file); }));
  auto set = data::ImageSet::open(file, 1);
  EXPECT_TRUE(waits_for_the_lock([&] { set.pixels(0); }));
}

TEST_F(OneLock, KeepsWritersOfDataSetsOut) {
  EXPECT_TRUE(waits_for_the_lock([&] { data_set(); }));
}

TEST_F(OneLock, KeepsSavesOut) {
  EXPECT_TRUE(waits_for_the_lock([&] { checkpoint::create_skeleton(folder_ / "node0000.h5", Step(1), {}, {}); }));
}

TEST_F(OneLock, KeepsTheSearchForOtherStructureOut) {
  checkpoint::TemporaryFolder root;
  ASSERT_TRUE(checkpoint::all_empty(checkpoint::save_as(root.path(), 1, Step(1), checkpoint::make_sample(1))));
  auto folder = root.path() / checkpoint::step_folder_name(Step(1));
  auto manifest = checkpoint::load_manifest(real_file_system(), folder);
  EXPECT_TRUE(waits_for_the_lock([&] { checkpoint::structure_problems(folder, manifest, 0); }));
}

/// Reads all images again and again until told to stop; returns how often.
int read_until(const std::atomic<bool>& stop, const std::filesystem::path& file) {
  int rounds = 0;
  for (; !stop || rounds == 0; ++rounds) {
    auto set = data::ImageSet::open(file, 0);
    for (std::int64_t i = 0; i < 1300; i += 100) EXPECT_EQ(set.pixels(i)[0], data::small_pixel(i, 0));
    EXPECT_THROW(data::describe_file(file.parent_path()), StorageError);
  }
  return rounds;
}

TEST_F(OneLock, LetsOneThreadReadWhileOthersSaveAndVerify) {
  auto file = data_set();
  std::atomic<bool> stop{false};
  std::thread reader([&] { EXPECT_GT(read_until(stop, file), 0); });
  for (bool compressed : {false, true}) {
    checkpoint::TemporaryFolder root;
    auto sample = checkpoint::make_compressible(1, 4000);
    checkpoint::Options options;
    options.compression = compressed ? "zstd" : "none";
    for (std::int64_t step = 1; step <= 5; ++step) {
      ASSERT_TRUE(checkpoint::all_empty(checkpoint::save_as(root.path(), 2, Step(step), sample, false, options)));
      auto folder = root.path() / checkpoint::step_folder_name(Step(step));
      auto manifest = checkpoint::load_manifest(real_file_system(), folder);
      EXPECT_THAT(checkpoint::structure_problems(folder, manifest, 0), ElementsAre());
    }
  }
  stop = true;
  reader.join();
}

}  // namespace
}  // namespace distdl
