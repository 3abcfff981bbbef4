// SPDX-License-Identifier: Apache-2.0
// What a Saver waits for: it says whom, and it can be given up.
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

}  // namespace
}  // namespace distdl::checkpoint
