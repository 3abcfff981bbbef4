// SPDX-License-Identifier: Apache-2.0
#include <fstream>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/checkpoint/commit/failing_file_system.hpp"
#include "tests/checkpoint/sample.hpp"
#include <distdl/base/errors.hpp>
#include <distdl/checkpoint/format/layout.hpp>
#include <distdl/checkpoint/format/manifest.hpp>
#include <distdl/checkpoint/group.hpp>
#include <distdl/checkpoint/inspect.hpp>
#include <distdl/checkpoint/owner.hpp>
#include <distdl/checkpoint/slice.hpp>
#include <distdl/checkpoint/snapshot_buffer.hpp>
#include <distdl/checkpoint/store.hpp>
#include <distdl/checkpoint/summary.hpp>

namespace distdl::checkpoint {
namespace {
namespace fs = std::filesystem;
using testing::HasSubstr;

TEST(Store, RestoresUnderAnyOtherCut) {
  Sample sample = make_sample(1);
  std::set<std::string> digests;
  for (int writers : {1, 2, 3, 4})
    for (bool grid : {false, true}) {
      TemporaryFolder root;
      EXPECT_TRUE(all_empty(save_as(root.path(), writers, Step(12), sample, grid)));
      Store store(root.path(), {});
      Summary summary = newest(store);
      EXPECT_EQ(summary.step, Step(12));
      EXPECT_EQ(summary.world_size, writers);
      EXPECT_EQ(summary.tensors.size(), sample.size());
      for (int readers : {1, 2, 3, 4, 6})
        for (bool other_grid : {false, true}) EXPECT_EQ(compare(store, summary, sample, readers, other_grid), "");
      EXPECT_TRUE(verify(summary.folder).empty());
      digests.insert(digest(summary));
    }
  EXPECT_EQ(digests.size(), 1u);
}

TEST(Store, TensorsLargerThanABlockComeBack) {
  TemporaryFolder root;
  Sample sample = make_sample(2, 200'000);  // 13 MB: four blocks
  EXPECT_TRUE(all_empty(save_as(root.path(), 2, Step(1), sample, true, {.verify_after_write = true})));
  Store store(root.path(), {});
  EXPECT_EQ(compare(store, newest(store), sample, 3), "");
}

TEST(Store, DigestTellsContentsApart) {
  TemporaryFolder root;
  Sample sample = make_sample(3);
  EXPECT_TRUE(all_empty(save_as(root.path(), 1, Step(1), sample)));
  sample[3].bytes[17] ^= std::byte{1};
  EXPECT_TRUE(all_empty(save_as(root.path(), 1, Step(2), sample)));
  auto all = list(root.path());
  ASSERT_EQ(all.size(), 2u);
  EXPECT_NE(digest(all[0]), digest(all[1]));
}

TEST(Store, EveryRankGetsTheSameAnswer) {
  TemporaryFolder root;
  Sample sample = make_sample(4);
  EXPECT_TRUE(all_empty(save_as(root.path(), 3, Step(5), sample)));
  std::vector<std::int64_t> found(3, -1);
  ThreadGroups(3).run([&](Group& group) {
    Store store(root.path(), {});
    auto summary = store.newest_valid(group);
    found[static_cast<std::size_t>(group.rank())] = summary ? summary->step.value : -2;
  });
  EXPECT_EQ(found, (std::vector<std::int64_t>{5, 5, 5}));
}

TEST(Store, AnEmptyOrMissingFolderHasNoCheckpoint) {
  TemporaryFolder root;
  SingleProcessGroup alone;
  EXPECT_FALSE(Store(root.path(), {}).newest_valid(alone));
  EXPECT_FALSE(Store(root.path() / "missing", {}).newest_valid(alone));
  try {
    open(root.path());
    FAIL();
  } catch (const StorageError& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::incomplete);
  }
}

TEST(Store, TakeMakesTheFolderAndItsParents) {
  TemporaryFolder root;
  SingleProcessGroup alone;
  Store store(root.path() / "run" / "checkpoints" / "", {});
  store.take(alone, owner_called(""));
  save_alone(store, 1, make_sample(1));
  EXPECT_EQ(newest(store).folder, root.path() / "run" / "checkpoints" / "step-000000000001");
}

TEST(Store, RefusesAModelOfAnotherShape) {
  TemporaryFolder root;
  EXPECT_TRUE(all_empty(save_as(root.path(), 1, Step(1), make_sample(1))));
  Store store(root.path(), {});
  Summary summary = newest(store);
  auto message = [&](const std::string& name, tensor::DataType dtype, const tensor::Shape& shape) -> std::string {
    std::vector<std::byte> memory(10000);
    Target target{name, dtype, shape, tensor::whole(shape), memory.data()};
    try {
      store.read(summary, std::span(&target, 1));
    } catch (const StorageError& error) {
      EXPECT_EQ(error.exit_code(), ExitCode::incompatible);
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(message("parameter/fc9.weight", tensor::DataType::float32, {3}),
              HasSubstr("\"parameter/fc9.weight\" is not in"));
  EXPECT_THAT(message("parameter/conv1.weight", tensor::DataType::float32, {9, 3, 5, 5}),
              HasSubstr("is f32 (9, 3, 5, 5) in the model, but was saved as f32 (8, 3, 5, 5)"));
  EXPECT_THAT(message("parameter/conv1.weight", tensor::DataType::float64, {8, 3, 5, 5}), HasSubstr("is f64"));
  EXPECT_EQ(message("parameter/conv1.weight", tensor::DataType::float32, {8, 3, 5, 5}), "");
}

TEST(Store, RefusesSlicesThatDoNotFormWholeTensors) {
  TemporaryFolder root;
  Sample sample = make_sample(1);
  ThreadGroups groups(2);
  auto errors = groups.run([&](Group& group) {
    Store store(root.path(), {});
    store.take(group, owner_called("test"));
    Share share = share_of(sample, group.rank(), 2);
    if (group.rank() == 1) share.slices.pop_back();
    store.save(group, Step(1), share.slices, {});
  });
  EXPECT_THAT(errors[0], HasSubstr("tensor \"small\""));
  EXPECT_EQ(errors[0], errors[1]);
  EXPECT_TRUE(steps_in(root.path()).empty());
  EXPECT_TRUE(entries_with_prefix(root.path(), kStagePrefix).empty());
}

TEST(Store, RefusesBadNames) {
  TemporaryFolder root;
  SingleProcessGroup alone;
  Store store(root.path(), {});
  store.take(alone, owner_called("test"));
  float value = 1;
  for (const char* name : {"", "/a", "a//b", "../a", "a/..", "a b", "a\n"}) {
    Slice slice{name, tensor::DataType::float32, {}, {}, reinterpret_cast<const std::byte*>(&value)};
    EXPECT_THROW(store.save(alone, Step(1), std::span(&slice, 1), {}), StorageError) << name;
  }
}

TEST(Store, RefusesATensorWithinTheNameOfAnother) {
  TemporaryFolder root;
  SingleProcessGroup alone;
  Store store(root.path(), {});
  store.take(alone, owner_called("test"));
  const float value = 1;
  std::vector<Slice> slices;
  for (const char* name : {"x", "x-1", "x/0"})
    slices.push_back({name, tensor::DataType::float32, {}, {}, reinterpret_cast<const std::byte*>(&value)});
  try {
    store.save(alone, Step(1), slices, {});
    ADD_FAILURE() << "saved";
  } catch (const StorageError& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::incompatible);
    EXPECT_THAT(error.what(), HasSubstr("\"x/0\""));
  }
  EXPECT_THROW(store.save(alone, Step(1), std::span(slices).first(2), {{"a", "1"}, {"a/b", "2"}}), StorageError);
  EXPECT_NO_THROW(store.save(alone, Step(1), std::span(slices).first(2), {{"a", "1"}}));
}

TEST(Store, RefusesAStateWithAKeyOfItsOwn) {
  TemporaryFolder root;
  SingleProcessGroup alone;
  Store store(root.path(), {});
  store.take(alone, owner_called("test"));
  const Share share = share_of(make_sample(1), 0, 1);
  try {
    store.save(alone, Step(1), share.slices, {{kParityKey, "[]"}});
    ADD_FAILURE() << "saved";
  } catch (const StorageError& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::incompatible);
    EXPECT_THAT(error.what(), HasSubstr("\"distdl.parity\" cannot be saved: distdl uses this key"));
  }
  EXPECT_TRUE(list(root.path()).empty());
}

TEST(Store, FilesOfTenThousandWritersAreInOrder) {
  Manifest manifest;
  manifest.world_size = 10001;
  for (int writer : {9998, 9999, 10000}) manifest.files.push_back({data_file_name(writer), 100, 0});
  EXPECT_NO_THROW(check_manifest(manifest, "a manifest"));
  std::swap(manifest.files[1], manifest.files[2]);
  EXPECT_THROW(check_manifest(manifest, "a manifest"), StorageError);
}

TEST(Store, AZombieCannotSaveOnceAnotherRunTookTheFolder) {
  TemporaryFolder root;
  SingleProcessGroup alone;
  Store zombie(root.path(), {}), successor(root.path(), {});
  zombie.take(alone, owner_called("first"));
  save_alone(zombie, 1, make_sample(1));
  successor.take(alone, Owner{"42", 1, 1, "second"});
  try {
    save_alone(zombie, 2, make_sample(2));
    FAIL() << "the zombie saved";
  } catch (const StorageError& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::superseded);
    EXPECT_THAT(error.what(), HasSubstr("another run owns"));
    EXPECT_THAT(error.what(), HasSubstr("job 42, restart 1"));
  }
  EXPECT_EQ(newest(successor).step, Step(1));
  EXPECT_TRUE(entries_with_prefix(root.path(), kStagePrefix).empty());
  save_alone(successor, 2, make_sample(3));
  EXPECT_EQ(compare(successor, newest(successor), make_sample(3)), "");
}

TEST(Store, AnOlderGenerationOfTheSameLaunchCannotTakeTheFolderBack) {
  TemporaryFolder root;
  SingleProcessGroup alone;
  const auto take = [&](const std::string& launch, std::uint32_t generation) {
    Owner owner{.job = "17", .restart = 0, .generation = generation, .nonce = ""};
    owner.launch = launch;
    try {
      Store(root.path(), {}).take(alone, owner);
    } catch (const StorageError& error) {
      EXPECT_EQ(error.exit_code(), ExitCode::superseded) << error.what();
      return false;
    }
    return true;
  };
  EXPECT_TRUE(take("", 4)) << "an older distdl wrote no launch";
  EXPECT_TRUE(take("a", 2));
  EXPECT_FALSE(take("a", 1));
  EXPECT_TRUE(take("a", 3));
  EXPECT_FALSE(take("a", 2));
  EXPECT_TRUE(take("a", 3));
  EXPECT_TRUE(take("b", 1)) << "another launch";
  EXPECT_TRUE(take("", 0));
  EXPECT_TRUE(take("", 0));
}

// Whenever the successor comes, what it finds when it starts stays the newest: the zombie cannot add to it.
TEST(Store, ASuccessorMayComeAtAnyOperationOfAZombiesSave) {
  int refused = 0;
  for (int operation = 0;; ++operation) {
    SCOPED_TRACE(operation);
    TemporaryFolder root;
    SingleProcessGroup alone;
    EXPECT_TRUE(all_empty(save_as(root.path(), 1, Step(1), make_sample(1))));
    Store successor(root.path(), {});
    std::int64_t start = 0;
    FailingFileSystem files({.fault = FailingFileSystem::Fault::call, .at = operation, .call = [&] {
                               successor.take(alone, owner_called("second"));
                               start = newest(successor).step.value;
                             }});
    bool saved = false;
    try {
      Store zombie(root.path(), {}, files);  // its end waits for the thread that deletes checkpoints
      zombie.take(alone, owner_called("first"));
      if (files.struck()) continue;  // the successor came before the zombie; then the zombie is the successor
      save_alone(zombie, 2, make_sample(2));
      saved = true;
    } catch (const StorageError& error) {
      EXPECT_EQ(error.exit_code(), ExitCode::superseded) << error.what();
      ++refused;
      EXPECT_THAT(error.what(), HasSubstr("another run owns"));
    }
    if (!files.struck()) break;
    EXPECT_EQ(saved, start == 2);
    EXPECT_EQ(newest(successor).step.value, start);
    EXPECT_TRUE(verify(newest(successor).folder).empty());
  }
  EXPECT_GT(refused, 20);
}

TEST(Store, TakingAFolderThatIsNotSharedFails) {
  TemporaryFolder one, other;
  auto errors = ThreadGroups(2).run([&](Group& group) {
    Store store(group.rank() == 0 ? one.path() : other.path(), {});
    store.take(group, owner_called("test"));
  });
  for (const auto& error : errors) {
    EXPECT_THAT(error, HasSubstr("rank 1 of 2"));
    EXPECT_THAT(error, HasSubstr("must be the same one on all nodes"));
  }
}

TEST(Store, SavingTheSameStepAgainWritesNothing) {
  TemporaryFolder root;
  EXPECT_TRUE(all_empty(save_as(root.path(), 2, Step(7), make_sample(1))));
  auto manifest = root.path() / "step-000000000007/MANIFEST";
  auto inode_time = fs::last_write_time(manifest);
  EXPECT_TRUE(all_empty(save_as(root.path(), 3, Step(7), make_sample(1), true)));  // another world and cut
  EXPECT_EQ(fs::last_write_time(manifest), inode_time);
  EXPECT_EQ(open(root.path()).world_size, 2);
  EXPECT_FALSE(fs::exists(root.path() / kQuarantineName));
}

TEST(Store, SavingOtherContentsUnderTheSameStepReplacesThem) {
  TemporaryFolder root;
  EXPECT_TRUE(all_empty(save_as(root.path(), 2, Step(7), make_sample(1))));
  EXPECT_TRUE(all_empty(save_as(root.path(), 2, Step(7), make_sample(2))));
  Store store(root.path(), {});
  EXPECT_EQ(compare(store, newest(store), make_sample(2)), "");
  EXPECT_EQ(entries_with_prefix(root.path() / kQuarantineName, "step-000000000007.").size(), 1u);
  EXPECT_TRUE(entries_with_prefix(root.path(), kStagePrefix).empty());
}

TEST(Store, ADamagedStepIsReplacedWhenItIsSavedAgain) {
  TemporaryFolder root;
  EXPECT_TRUE(all_empty(save_as(root.path(), 1, Step(7), make_sample(1))));
  fs::remove(root.path() / "step-000000000007/node0000.h5");
  EXPECT_TRUE(all_empty(save_as(root.path(), 1, Step(7), make_sample(1))));
  Store store(root.path(), {});
  EXPECT_EQ(compare(store, newest(store), make_sample(1)), "");
}

/// A group whose peers are lost at the n-th all_gather.
class LosingGroup final : public Group {
 public:
  explicit LosingGroup(int at) : left_(at) {}
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::vector<std::string> all_gather(const std::string& mine) override {
    if (left_-- == 0) throw CommError("peer 1 is lost");
    return {mine};
  }

 private:
  int left_;
};

TEST(Store, ALostPeerLeavesNeitherAStageNorDamage) {
  TemporaryFolder root;
  SingleProcessGroup alone;
  Store store(root.path(), {});
  store.take(alone, owner_called("test"));
  save_alone(store, 1, make_sample(1));
  int lost = 0;
  for (int at = 0; at < 50; ++at) {
    LosingGroup group(at);
    Share share = share_of(make_sample(2), 0, 1);
    try {
      store.save(group, Step(2), share.slices, sample_state());
      break;
    } catch (const CommError&) {
      ++lost;
    }
    EXPECT_TRUE(entries_with_prefix(root.path(), kStagePrefix).empty());
    Summary summary = newest(store);
    EXPECT_EQ(compare(store, summary, make_sample(static_cast<std::uint64_t>(summary.step.value))), "");
  }
  EXPECT_GE(lost, 4);
  EXPECT_EQ(newest(store).step, Step(2));
}
TEST(Store, CountsTheStartsOfAFolder) {
  TemporaryFolder root;
  SingleProcessGroup alone;
  Sample sample = make_sample(1);
  Share share = share_of(sample, 0, 1);
  for (std::uint64_t start : {1, 2, 3}) {
    Store store(root.path(), {});
    store.take(alone, owner_called("start " + std::to_string(start)));
    EXPECT_EQ(store.owner().start, start);
    store.save(alone, Step(static_cast<std::int64_t>(10 * start)), share.slices, sample_state());
    auto newest = store.newest(alone);
    ASSERT_TRUE(newest);
    EXPECT_EQ(newest->step, Step(static_cast<std::int64_t>(10 * start)));
    EXPECT_EQ(newest->start, start);
    std::filesystem::remove(newest->folder / kManifestName);  // then its step is known all the same
    EXPECT_EQ(store.newest(alone)->step, newest->step);
  }
}

}  // namespace
}  // namespace distdl::checkpoint
