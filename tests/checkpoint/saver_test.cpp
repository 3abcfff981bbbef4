// SPDX-License-Identifier: Apache-2.0
// Saves beside training: what is saved is what was there when save() was called, nothing queues, errors come back.
#include <atomic>
#include <future>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/checkpoint/saver_fixture.hpp"
#include <distdl/base/clock.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/checkpoint/format/layout.hpp>
#include <distdl/checkpoint/saving/save_activity.hpp>
#include <distdl/checkpoint/snapshot_buffer.hpp>
#include <distdl/checkpoint/snapshot_memory.hpp>

namespace distdl::checkpoint {
namespace {
using testing::AllOf;
using testing::HasSubstr;
using namespace std::chrono_literals;

TEST(Saver, SavesWhatAStoreSaves) {
  for (const char* mode : {"async", "lazy", "sync"})
    for (int world : {1, 3}) {
      TemporaryFolder root;
      Sample sample = finite_sample(1, 100'000);
      auto errors = on_ranks(world, root.path(), real_file_system(), {.mode = mode}, [&](Here here) {
        Share share = share_of(sample, here.group.rank(), world);
        here.saver.prepare(share.slices, sample_state());
        EXPECT_TRUE(here.saver.save(Step(5), share.slices, sample_state()));
        here.saver.fence();
        here.saver.wait();
        auto outcomes = here.saver.outcomes();
        ASSERT_EQ(outcomes.size(), 1u);
        EXPECT_EQ(outcomes[0].step, Step(5));
        EXPECT_EQ(outcomes[0].error, "");
        EXPECT_GT(outcomes[0].bytes, 1000u);
        EXPECT_EQ(here.saver.skipped(), 0);
        here.saver.close();
      });
      EXPECT_TRUE(all_empty(errors)) << errors[0];
      Store store(root.path(), {});
      EXPECT_EQ(compare(store, open(root.path()), sample), "") << mode;
      EXPECT_TRUE(verify(root.path() / step_folder_name(Step(5))).empty());
      EXPECT_TRUE(buffers_of(run_name()).empty());
    }
}

// C7 of the test plan: training changes its tensors right after save() has returned, every time.
TEST(Saver, TheSnapshotIsTheOldValueWhateverTrainingDoesRightAfter) {
  for (const char* mode : {"async", "lazy"}) {
    constexpr int kWorld = 2, kSaves = 200;
    TemporaryFolder root;
    auto errors = on_ranks(kWorld, root.path(), real_file_system(), {.keep = 2, .mode = mode}, [&](Here here) {
      std::vector<float> memory(20'000);
      auto rows = static_cast<std::int64_t>(memory.size());
      Slice slice{"parameter/x",
                  tensor::DataType::float32,
                  {kWorld * rows},
                  {{here.group.rank() * rows}, {rows}},
                  reinterpret_cast<const std::byte*>(memory.data())};
      for (int i = 1; i <= kSaves; ++i) {
        std::fill(memory.begin(), memory.end(), static_cast<float>(i));
        ASSERT_TRUE(here.saver.save(Step(i), std::span(&slice, 1), {}));
        here.saver.fence();
        std::fill(memory.begin(), memory.end(), -1.0f);
        here.saver.wait();
        std::vector<float> found(memory.size());
        Target target{slice.name, slice.dtype, slice.shape, slice.box, reinterpret_cast<std::byte*>(found.data())};
        here.store.read(open(root.path() / step_folder_name(Step(i))), std::span(&target, 1));
        ASSERT_EQ(std::count(found.begin(), found.end(), static_cast<float>(i)), rows) << "save " << i;
        here.group.all_gather("");  // the others read it too
      }
    });
    EXPECT_TRUE(all_empty(errors)) << errors[0];
  }
}

TEST(Saver, SkipsOnAllRanksWhileOneStillWrites) {
  TemporaryFolder root;
  GatedFileSystem slow;
  Sample sample = finite_sample(1);
  auto errors = on_ranks(2, root.path(), slow, {}, [&](Here here) {
    Share share = share_of(sample, here.group.rank(), 2);
    if (here.group.rank() == 0) slow.shut();
    here.group.all_gather("");
    EXPECT_TRUE(here.saver.save(Step(1), share.slices, sample_state()));
    EXPECT_TRUE(here.saver.is_busy());
    for (int step : {2, 3}) EXPECT_FALSE(here.saver.save(Step(step), share.slices, sample_state()));
    EXPECT_EQ(here.saver.skipped(), 2);
    here.group.all_gather("");
    slow.lift();
    here.saver.wait();
    EXPECT_TRUE(here.saver.save(Step(4), share.slices, sample_state()));
    here.saver.wait();
    EXPECT_EQ(here.saver.outcomes().size(), 2u);
  });
  EXPECT_TRUE(all_empty(errors)) << errors[0];
  std::vector<std::int64_t> steps;
  for (const auto& summary : list(root.path())) steps.push_back(summary.step.value);
  EXPECT_EQ(steps, (std::vector<std::int64_t>{1, 4}));
}

TEST(Saver, TheLastSaveIsNeverSkipped) {
  TemporaryFolder root;
  GatedFileSystem slow;
  Sample first = finite_sample(1), last = finite_sample(2);
  auto errors = on_ranks(2, root.path(), slow, {}, [&](Here here) {
    if (here.group.rank() == 0) slow.shut();
    here.group.all_gather("");
    here.saver.save(Step(1), share_of(first, here.group.rank(), 2).slices, sample_state());
    auto opener = std::async(std::launch::async, [&] {
      std::this_thread::sleep_for(30ms);
      slow.lift();
    });
    Share share = share_of(last, here.group.rank(), 2);
    EXPECT_EQ(here.saver.save_and_wait(Step(2), share.slices, sample_state()).step, Step(2));
    EXPECT_FALSE(here.saver.is_busy());
  });
  EXPECT_TRUE(all_empty(errors)) << errors[0];
  Store store(root.path(), {});
  EXPECT_EQ(compare(store, open(root.path() / step_folder_name(Step(1))), first), "");
  EXPECT_EQ(compare(store, open(root.path() / step_folder_name(Step(2))), last), "");
}

TEST(Saver, AFailingDiskLeavesTrainingGoingOnAndIsTold) {
  TemporaryFolder root;
  GatedFileSystem files;
  Sample sample = finite_sample(1);
  auto errors = on_ranks(2, root.path(), files, {}, [&](Here here) {
    Share share = share_of(sample, here.group.rank(), 2);
    here.group.all_gather("");
    files.fail_with(EIO);
    EXPECT_TRUE(here.saver.save(Step(1), share.slices, sample_state()));
    try {
      here.saver.wait();
      ADD_FAILURE() << "the save went well";
    } catch (const StorageError& error) {
      EXPECT_EQ(error.exit_code(), ExitCode::storage);
      EXPECT_THAT(error.what(), AllOf(HasSubstr("save of step 1"), HasSubstr("EIO"), HasSubstr(root.path().string())));
    }
    auto outcomes = here.saver.outcomes();
    ASSERT_EQ(outcomes.size(), 1u);
    EXPECT_THAT(outcomes[0].error, HasSubstr("EIO"));
    here.group.all_gather("");
    files.fail_with(0);
    here.group.all_gather("");
    EXPECT_TRUE(here.saver.save(Step(2), share.slices, sample_state()));
    EXPECT_NO_THROW(here.saver.wait());
  });
  EXPECT_TRUE(all_empty(errors)) << errors[0];
  Store store(root.path(), {});
  EXPECT_EQ(compare(store, open(root.path()), sample), "");
}

TEST(Saver, BeingSupersededComesBackAtTheNextSaveOnAllRanks) {
  TemporaryFolder root;
  Sample sample = finite_sample(1);
  auto errors = on_ranks(2, root.path(), real_file_system(), {}, [&](Here here) {
    Share share = share_of(sample, here.group.rank(), 2);
    if (here.group.rank() == 0) {
      SingleProcessGroup alone;
      Store(root.path(), {}).take(alone, owner_called("successor"));
    }
    here.group.all_gather("");
    EXPECT_TRUE(here.saver.save(Step(1), share.slices, sample_state()));
    while (here.saver.is_busy()) std::this_thread::sleep_for(1ms);
    try {
      here.saver.save(Step(2), share.slices, sample_state());
    } catch (const StorageError& error) {
      EXPECT_EQ(error.exit_code(), ExitCode::superseded);
      throw;
    }
  });
  for (const auto& error : errors) EXPECT_THAT(error, HasSubstr("another run owns"));
  EXPECT_TRUE(list(root.path()).empty());
}

TEST(Saver, ValuesThatAreNotFiniteAreRefusedOnAllRanksAndNothingIsSaved) {
  for (const char* mode : {"async", "lazy", "sync"}) {
    TemporaryFolder root;
    auto errors = on_ranks(2, root.path(), real_file_system(), {.mode = mode}, [&](Here here) {
      std::vector<float> memory(100, 1.0f);
      if (here.group.rank() == 1) memory[7] = std::numeric_limits<float>::infinity();
      Slice slice{"parameter/x",
                  tensor::DataType::float32,
                  {200},
                  {{here.group.rank() * 100}, {100}},
                  reinterpret_cast<const std::byte*>(memory.data())};
      try {
        here.saver.save(Step(3), std::span(&slice, 1), {});
        here.saver.fence();
      } catch (const StorageError& error) {
        EXPECT_EQ(error.exit_code(), ExitCode::config);
        throw;
      }
    });
    for (const auto& error : errors)
      EXPECT_THAT(error,
                  AllOf(HasSubstr("rank 1 of 2"), HasSubstr("parameter/x"), HasSubstr("not a number at step 3")));
    EXPECT_TRUE(list(root.path()).empty());
  }
}

TEST(Saver, AStateThatCannotBeSavedIsRefusedAtOnceThoughOnlyASnapshotIsTaken) {
  for (const char* mode : {"async", "lazy"}) {
    TemporaryFolder root;
    auto errors = on_ranks(2, root.path(), real_file_system(), {.mode = mode}, [&](Here here) {
      Share share = share_of(finite_sample(1), here.group.rank(), 2);
      const State state = here.group.rank() == 1 ? State{{kParityKey, "[]"}} : State{};
      try {
        here.saver.save(Step(3), share.slices, state, {false, {}});
        here.saver.fence();
      } catch (const StorageError& error) {
        EXPECT_EQ(error.exit_code(), ExitCode::incompatible);
        EXPECT_EQ(here.saver.newest_buffer(), "");
        throw;
      }
    });
    for (const auto& error : errors)
      EXPECT_THAT(error, AllOf(HasSubstr("rank 1 of 2"), HasSubstr("\"distdl.parity\" cannot be saved")));
  }
}

TEST(Saver, TheNewestSealedSlotStaysReadableWhileTheNextIsWritten) {
  TemporaryFolder root;
  GatedFileSystem slow;
  Sample sample = finite_sample(1);
  auto errors = on_ranks(1, root.path(), slow, {}, [&](Here here) {
    Share share = share_of(sample, 0, 1);
    here.saver.save(Step(1), share.slices, sample_state());
    here.saver.wait();
    std::string first = here.saver.newest_buffer();
    slow.shut();
    here.saver.save(Step(2), share.slices, sample_state());
    std::string second = here.saver.newest_buffer();
    EXPECT_NE(first, second);
    for (auto [name, step] : {std::pair(first, 1), std::pair(second, 2)}) {
      SnapshotMemory memory = SnapshotMemory::open(name);
      Snapshot snapshot = open_snapshot(memory.bytes());
      EXPECT_NO_THROW(verify(snapshot));
      EXPECT_EQ(snapshot.label.step, Step(step));
      EXPECT_EQ(snapshot.label.sequence, static_cast<std::uint64_t>(step));
    }
    slow.lift();
    here.saver.wait();
  });
  EXPECT_TRUE(all_empty(errors)) << errors[0];
  EXPECT_TRUE(buffers_of(run_name()).empty());
}

// The checksums are those of the copy: what changes in the buffer afterwards is seen when it is read.
TEST(Saver, AByteThatChangesBetweenTheCopyAndTheDiskIsSeen) {
  TemporaryFolder root;
  std::vector<float> memory(1000, 1.0f);
  Slice slice{"parameter/x",
              tensor::DataType::float32,
              {1000},
              tensor::whole({1000}),
              reinterpret_cast<const std::byte*>(memory.data())};
  SnapshotMemory buffer = SnapshotMemory::create_private(buffer_bytes(std::span(&slice, 1), {}));
  fill_buffer(buffer.writable(), {"run", 0, 1, Step(1), 1}, std::span(&slice, 1), {});
  Snapshot snapshot = open_snapshot(buffer.bytes());
  buffer.writable()[static_cast<std::size_t>(snapshot.slices[0].bytes - buffer.bytes().data()) + 5] ^= std::byte{1};
  SingleProcessGroup alone;
  Store store(root.path(), {});
  store.take(alone, owner_called("test"));
  store.save(alone, Step(1), snapshot.slices, snapshot.state);
  EXPECT_EQ(verify(root.path() / step_folder_name(Step(1))).size(), 1u);
  EXPECT_FALSE(store.newest_valid(alone));
}

TEST(SaverOptions, ThatMakeNoSenseAreRefused) {
  for (const Options& options : {Options{.copy_threads = 0}, Options{.write_threads = -1}})
    EXPECT_THROW(check(options), ConfigError);
}

}  // namespace
}  // namespace distdl::checkpoint
