// SPDX-License-Identifier: Apache-2.0
// Saves beside training: what is saved is what was there when save() was called, nothing queues, errors come back.
#include <atomic>
#include <future>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/checkpoint/commit/failing_file_system.hpp"
#include "tests/checkpoint/sample.hpp"
#include <distdl/base/clock.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/checkpoint/format/layout.hpp>
#include <distdl/checkpoint/saver.hpp>
#include <distdl/checkpoint/saving/save_activity.hpp>
#include <distdl/checkpoint/snapshot_buffer.hpp>
#include <distdl/checkpoint/snapshot_memory.hpp>

namespace distdl::checkpoint {
namespace {
using testing::AllOf;
using testing::HasSubstr;
using namespace std::chrono_literals;

/// A gate that writing stops at: before the first file is opened for writing while it is closed.
class GatedFileSystem final : public FileSystem {
 public:
  void shut() { open_ = false; }
  void lift() { open_ = true; }
  int arrived() const { return arrived_; }
  ssize_t pwrite(int fd, const std::byte* data, std::size_t bytes, off_t offset) override {
    if (!open_) ++arrived_;
    while (!open_) std::this_thread::sleep_for(1ms);
    if (number_ != 0) return errno = number_, -1;
    return FileSystem::pwrite(fd, data, bytes, offset);
  }
  void fail_with(int number) { number_ = number; }

 private:
  std::atomic<bool> open_{true};
  std::atomic<int> arrived_{0}, number_{0};
};

std::string run_name() {
  return "saver_" + std::to_string(::getpid());
}

/// What a training thread on one of several ranks has.
struct Here {
  Group& group;
  Store& store;
  Saver& saver;
};

/// Runs `work` on `size` ranks that are threads, each with a Saver; what each threw.
std::vector<std::string> on_ranks(int size, const std::filesystem::path& root, FileSystem& files, Options options,
                                  const std::function<void(Here)>& work) {
  ThreadGroups training(size), writing(size);
  return training.run([&](Group& group) {
    Store store(root, options, files);
    store.take(group, owner_called("test"));
    Saver saver(store, group, writing.member(group.rank()), {run_name(), true});
    work({group, store, saver});
  });
}

Sample finite_sample(std::uint64_t seed, std::int64_t rows = 40) {
  Sample sample = make_sample(seed, rows);
  for (auto& tensor : sample)
    for (std::size_t i = 0; i < tensor.bytes.size(); ++i)
      if (tensor::size_of(tensor.entry.dtype) > 1) tensor.bytes[i] &= std::byte{0x3F};  // no exponent of ones
  return sample;
}

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

TEST(Saver, AWaitThatTakesTooLongSaysWhatItWaitedFor) {
  TemporaryFolder root;
  GatedFileSystem slow;
  Sample sample = finite_sample(1);
  auto errors = on_ranks(2, root.path(), slow, {.timeout_seconds = 1}, [&](Here here) {
    Share share = share_of(sample, here.group.rank(), 2);
    if (here.group.rank() == 0) slow.shut();
    here.group.all_gather("");
    here.saver.save(Step(7), share.slices, sample_state());
    try {
      here.saver.wait();
    } catch (...) {
      here.group.all_gather("");
      slow.lift();
      throw;
    }
  });
  for (const auto& error : errors)
    EXPECT_THAT(error, AllOf(HasSubstr("save of step 7"), HasSubstr("rank 0, which writes or checks files"),
                             HasSubstr("checkpoint.timeout_seconds = 1:"), HasSubstr(root.path().string())));
}

/// Lets nobody make one file while it is closed.
class HangingFile final : public FileSystem {
 public:
  explicit HangingFile(std::string name) : name_(std::move(name)) {}
  void lift() { open_ = true; }
  int before_hdf5(const char* path) override {
    while (!open_ && std::string_view(path).ends_with(name_)) std::this_thread::sleep_for(1ms);
    return FileSystem::before_hdf5(path);
  }

 private:
  std::string name_;
  std::atomic<bool> open_{false};
};

TEST(Saver, AWaitThatTakesTooLongNamesTheRanksThatAreLate) {
  TemporaryFolder root;
  HangingFile files("node0002.h5");
  Sample sample = finite_sample(1);
  auto errors = on_ranks(3, root.path(), files, {.timeout_seconds = 1}, [&](Here here) {
    Share share = share_of(sample, here.group.rank(), 3);
    here.saver.save(Step(7), share.slices, sample_state());
    try {
      here.saver.wait();
    } catch (...) {
      here.group.all_gather("");
      files.lift();
      throw;
    }
  });
  for (const auto& error : errors)
    EXPECT_THAT(error, testing::EndsWith("waits for rank 2, which writes or checks files"));
}

TEST(WhoIsLate, NamesAFewRanksAndCountsTheRest) {
  EXPECT_EQ(who_is_late({kWaits, kProtects, "", kWrites}),
            "rank 1, which copies its snapshot to other nodes or disks, for rank 3, which writes or checks files");
  EXPECT_THAT(who_is_late(std::vector<std::string>(11, kCopies)), testing::EndsWith("and for 3 more ranks"));
  EXPECT_THAT(who_is_late({kWaits, kWaits}), HasSubstr("each of them waits for the others"));
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

/// A writing group whose other rank never comes.
class Forsaken final : public Group {
 public:
  int rank() const override { return 0; }
  int size() const override { return 2; }
  std::vector<std::string> all_gather(const std::string&) override {
    while (!cancelled_) std::this_thread::sleep_for(1ms);
    throw CommError("cancelled");
  }
  void cancel() noexcept override { cancelled_ = true; }

 private:
  std::atomic<bool> cancelled_{false};
};

TEST(Saver, GivingUpEndsAWriterThatWaitsForOthers) {
  TemporaryFolder root;
  SingleProcessGroup alone;
  Store store(root.path(), {});
  store.take(alone, owner_called("test"));
  Share share = share_of(finite_sample(1), 0, 1);
  Stopwatch watch;
  {
    Saver saver(store, alone, std::make_unique<Forsaken>(), {run_name()});
    saver.save(Step(1), share.slices, sample_state());
  }
  EXPECT_LT(watch.seconds(), 10);
}

TEST(Saver, GivingUpEndsAWriterThatTellsTheOthersWhereItRuns) {
  TemporaryFolder root;
  SingleProcessGroup alone;
  Store store(root.path(), {});
  store.take(alone, owner_called("test"));
  Stopwatch watch;
  {
    Levels::Setup levels;
    levels.run = levels.memory = run_name();
    levels.place = {"n0", ""};
    Saver saver(store, alone, std::make_unique<Forsaken>(), {run_name(), false, false, levels});
    std::this_thread::sleep_for(50ms);
  }
  EXPECT_LT(watch.seconds(), 4);  // less than what a hanging system call is given
}

TEST(Saver, ItsEndDoesNotHangWithTheFileSystem) {
  /// Tells when the writing thread lets it go.
  class Told final : public Group {
   public:
    explicit Told(std::atomic<bool>& gone) : gone_(gone) {}
    ~Told() override { gone_ = true; }
    int rank() const override { return 0; }
    int size() const override { return 1; }
    std::vector<std::string> all_gather(const std::string& mine) override { return {mine}; }

   private:
    std::atomic<bool>& gone_;
  };
  static GatedFileSystem hanging;  // these outlive the test's view of the thread
  static std::atomic<bool> gone{false};
  TemporaryFolder root;
  SingleProcessGroup alone;
  Share share = share_of(finite_sample(1), 0, 1);
  Stopwatch watch;
  {
    Store store(root.path(), {.timeout_seconds = 0.05}, hanging);
    store.take(alone, owner_called("test"));
    Saver saver(store, alone, std::make_unique<Told>(gone), {run_name()});
    hanging.shut();
    saver.save(Step(1), share.slices, sample_state());
    EXPECT_THROW(saver.wait(), StorageError);
  }
  EXPECT_LT(watch.seconds(), 20);
  EXPECT_FALSE(gone);
  EXPECT_TRUE(buffers_of(run_name()).empty());
  hanging.lift();  // with all but the thread gone, what it uses is still there
  while (!gone && watch.seconds() < 60) std::this_thread::sleep_for(1ms);
  EXPECT_TRUE(gone);
}

/// A writing group that loses its other rank.
class Lost final : public Group {
 public:
  int rank() const override { return 0; }
  int size() const override { return 2; }
  std::vector<std::string> all_gather(const std::string&) override { throw CommError("the other rank is lost"); }
};

TEST(Saver, AWritingGroupThatIsLostFailsTheNextSave) {
  for (const char* mode : {"async", "lazy"}) {
    TemporaryFolder root;
    SingleProcessGroup alone;
    Store store(root.path(), {.mode = mode});
    store.take(alone, owner_called("test"));
    Share share = share_of(finite_sample(1), 0, 1);
    Levels::Setup levels;
    levels.run = levels.memory = run_name();
    levels.place = {"n0", ""};
    for (const auto& setup : {Saver::Setup{run_name()}, Saver::Setup{run_name(), false, false, levels}}) {
      Saver saver(store, alone, std::make_unique<Lost>(), setup);
      auto save_twice = [&] {
        for (int step : {1, 2}) saver.save(Step(step), share.slices, sample_state()), saver.wait();
      };
      EXPECT_THROW(save_twice(), StorageError);
      EXPECT_THROW(save_twice(), StorageError);
    }
  }
}

TEST(SaverOptions, ThatMakeNoSenseAreRefused) {
  for (const Options& options : {Options{.copy_threads = 0}, Options{.write_threads = -1}})
    EXPECT_THROW(check(options), ConfigError);
}
}  // namespace
}  // namespace distdl::checkpoint
