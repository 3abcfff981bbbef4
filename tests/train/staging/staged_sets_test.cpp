// SPDX-License-Identifier: Apache-2.0
#include <fstream>
#include <map>

#include <gmock/gmock.h>
#include <sys/stat.h>

#include "tests/train/run_fixture.hpp"
#include <distdl/data/data_set.hpp>
#include <distdl/train/staging/staged_sets.hpp>

namespace distdl::train {
namespace {
namespace fs = std::filesystem;
using testing::HasSubstr;

/// Bytes that this process has asked the system to read.
std::uint64_t bytes_read() {
  std::ifstream io("/proc/self/io");
  std::string key;
  std::uint64_t value = 0;
  io >> key >> value;
  return key == "rchar:" ? value : 0;
}

std::string bytes_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Each rank has a node of its own.
class Staging : public Run {
 protected:
  void SetUp() override {
    Run::SetUp();
    has_node_names_ = true;
    fs::create_directories(folder_ / "disk");
    recipe_.data.stage = (folder_ / "disk").string();
  }
  /// A set of some pieces.
  void use_large_set() {
    data::make_shapes({.samples = 3000, .size = 96, .classes = 4, .seed = 5}, set(), Overwrite::replace);
    ASSERT_GT(fs::file_size(set()), 9U << 20);
  }
  StagedSet staged() const { return {set(), data::digest_of_file(set()), data::describe_file(set()).stored_bytes}; }
  fs::path copy_of(int node) const {
    return folder_ / "disk" / fmt::format("distdl-data-{}", ::geteuid()) / fmt::format("n{}", node) / staged().name();
  }
  /// What the ranks use as data.train.
  std::map<int, std::string> stage(int nodes) {
    std::mutex mutex;
    std::map<int, std::string> used;
    world::run_threads(nodes, [&](world::World& world) {
      comm::Options options;
      options.timeout_seconds = paced(20);
      auto communicator = comm::Communicator::connect(world, options);
      const StagedSets sets(recipe_.data, *communicator, communicator->timeout(), fmt::format("n{}", world.rank()));
      {
        const std::lock_guard lock(mutex);
        used[world.rank().value] = sets.options().train;
      }
      communicator->close();
    });
    return used;
  }
  void damage(const fs::path& file) {
    std::fstream out(file, std::ios::binary | std::ios::in | std::ios::out);
    out.seekp(static_cast<std::streamoff>(fs::file_size(file) / 2));
    for (int i = 0; i < 512; ++i) out.put('\x55');
  }
};

TEST_F(Staging, ReadsEachByteOnceWhateverTheNumberOfNodes) {
  use_large_set();
  const auto size = fs::file_size(set());
  const auto before = bytes_read();
  const auto used = stage(3);
  EXPECT_LT(bytes_read() - before, size * 3 / 2);
  for (int node = 0; node < 3; ++node) {
    EXPECT_EQ(used.at(node), copy_of(node).string());
    EXPECT_TRUE(bytes_of(copy_of(node)) == bytes_of(set()));
  }
  const auto again = bytes_read();
  EXPECT_EQ(stage(3), used);
  EXPECT_LT(bytes_read() - again, size / 2) << "what was kept is not read";
}

TEST_F(Staging, ReadsTheCopyOfAnotherNodeInsteadOfTheSharedFile) {
  use_large_set();
  stage(2);
  const std::string whole = bytes_of(set());
  fs::remove(copy_of(1));
  const auto expected = copy_of(2);
  damage(set());  // its digest is that of the checksums
  EXPECT_EQ(stage(3).at(2), expected.string());
  EXPECT_TRUE(bytes_of(copy_of(1)) == whole);
  EXPECT_TRUE(bytes_of(expected) == whole);
}

TEST_F(Staging, ChangesNoByteOfARun) {
  const std::string stage = recipe_.data.stage;
  recipe_.data.stage.clear();
  const auto plain = digest_of(2, "plain");
  recipe_.data.stage = stage;
  for (const int ranks : {1, 2, 3}) EXPECT_EQ(digest_of(ranks, fmt::format("staged{}", ranks)), plain);
}

TEST_F(Staging, CopiesEachSetOfAMixture) {
  const std::string train = std::exchange(recipe_.data.train, {});
  recipe_.data.holdout = 0;
  data::make_shapes({.samples = 60, .size = 12, .classes = 4, .seed = 6}, folder_ / "second.h5", Overwrite::refuse);
  recipe_.data.sets = {train, (folder_ / "second.h5").string()};
  recipe_.data.weights = {1, 1};
  const auto staged = digest_of(2, "staged");
  EXPECT_TRUE(fs::exists(copy_of(1)));
  recipe_.data.stage.clear();
  EXPECT_EQ(digest_of(1, "plain"), staged);
}

TEST_F(Staging, ADamagedCopyIsRemovedAndTheRanksStartAgain) {
  recipe_.data.stage.clear();
  const auto plain = digest_of(2, "plain");
  recipe_.data.stage = (folder_ / "disk").string();
  stage(2);
  const auto copy = copy_of(1);
  aborts_ = true;
  damage(copy);
  EXPECT_THAT(error_of(2, "damaged"), HasSubstr("is damaged and was removed"));
  EXPECT_EQ(code_, ExitCode::peer_lost);
  EXPECT_FALSE(fs::exists(copy));
  EXPECT_EQ(digest_of(2, "damaged"), plain);
}

TEST_F(Staging, ANodeWithoutTheFolderReadsTheSharedFile) {
  recipe_.data.stage = (folder_ / "not there").string();
  EXPECT_EQ(stage(2), (std::map<int, std::string>{{0, set().string()}, {1, set().string()}}));
  EXPECT_EQ(run(2, "shared"), Outcome::finished);
}

TEST_F(Staging, ALinkInThePlaceOfACopyIsRemovedAndNotFollowed) {
  stage(1);
  const auto copy = copy_of(0);
  fs::remove(copy);
  std::ofstream(folder_ / "precious") << "mine";
  fs::create_symlink(folder_ / "precious", copy);
  stage(1);
  EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(copy)));
  EXPECT_EQ(bytes_of(folder_ / "precious"), "mine");
}

TEST_F(Staging, CopiesThatWereNotUsedForAnHourMakeRoom) {
  const NodeCopies copies(recipe_.data.stage, "n0");
  const auto set = staged();
  const fs::path folder = copies.place_of(set).parent_path();
  for (const char* name : {"old", "new"}) std::ofstream(folder / name) << name;
  fs::last_write_time(folder / "old", fs::file_time_type::clock::now() - std::chrono::hours(2));
  copies.make_room_for(set);
  EXPECT_TRUE(fs::exists(folder / "old")) << "there is room";
  StagedSet large = set;
  large.bytes = std::uint64_t{1} << 62;
  EXPECT_THROW(copies.make_room_for(large), StorageError);
  EXPECT_FALSE(fs::exists(folder / "old"));
  EXPECT_TRUE(fs::exists(folder / "new"));
}

}  // namespace
}  // namespace distdl::train
