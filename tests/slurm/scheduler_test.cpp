// SPDX-License-Identifier: Apache-2.0
// How often Slurm is asked, and what is asked of it. Its commands are scripts here.
#include <gmock/gmock.h>

#include "tests/slurm/slurm_fixture.hpp"
#include <distdl/base/errors.hpp>

namespace distdl::slurm {
namespace {
using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// Counts the questions.
class Counter final : public Queries {
 public:
  explicit Counter(int& count) : count_(count) {}
  std::string description() const override { return "counter"; }
  std::optional<JobRecord> job(const std::string& id) override {
    if (++count_; fails) throw SchedulerError("away");
    JobRecord record;
    record.id = id;
    record.restarts = count_;
    return record;
  }
  std::optional<Partition> partition(const std::string& name) override { return ++count_, Partition{.name = name}; }
  Settings settings() override { return ++count_, Settings{}; }
  std::optional<std::string> batch_script(const std::string&) override { return ++count_, std::nullopt; }
  static inline bool fails = false;

 private:
  int& count_;
};

class CachedScheduler : public ::testing::Test {
 protected:
  int count_ = 0;
  Clock::time_point now_ = Clock::now();
  Scheduler scheduler_{std::make_unique<Counter>(count_), [this] { return now_; }};
};

TEST_F(CachedScheduler, AsksOnceAPeriodForEachJob) {
  EXPECT_EQ(scheduler_.job("17")->restarts, 1);
  now_ += Scheduler::kPeriod - 1ms;
  EXPECT_EQ(scheduler_.job("17")->restarts, 1);
  EXPECT_EQ(scheduler_.job("18")->restarts, 2);
  now_ += 1ms;
  EXPECT_EQ(scheduler_.job("17")->restarts, 3);
  EXPECT_EQ(scheduler_.job("18")->restarts, 2);
}

TEST_F(CachedScheduler, AsksAtOnceWhereTheAnswerDecides) {
  scheduler_.job("17");
  EXPECT_EQ(scheduler_.job("17", Freshness::now)->restarts, 2);
  EXPECT_EQ(scheduler_.job("17")->restarts, 2) << "the newer answer is kept";
  scheduler_.forget();
  EXPECT_EQ(scheduler_.job("17")->restarts, 3);
}

TEST_F(CachedScheduler, KeepsTheOtherAnswersToo) {
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(scheduler_.partition("batch")->name, "batch");
    scheduler_.settings();
    EXPECT_EQ(scheduler_.batch_script("17"), std::nullopt);
  }
  EXPECT_EQ(count_, 3);
}

TEST_F(CachedScheduler, KeepsNoErrors) {
  Counter::fails = true;
  EXPECT_THROW(scheduler_.job("17"), SchedulerError);
  Counter::fails = false;
  EXPECT_EQ(scheduler_.job("17")->restarts, 2);
}

TEST_F(CachedScheduler, RefusesWhatIsNoJobId) {
  for (const char* id : {"", "-1", "--all", "17;reboot", "17 18", "17_", "_3", "17_x", "$(id)", "17\n",
                         "111111111111111111111111111111111"}) {
    EXPECT_THROW(scheduler_.job(id), SchedulerError) << id;
    EXPECT_THROW(scheduler_.cancel(id), SchedulerError) << id;
    EXPECT_THROW(scheduler_.requeue(id), SchedulerError) << id;
    EXPECT_THROW(scheduler_.batch_script(id), SchedulerError) << id;
  }
  for (const char* name : {"", "-a", "a,b", "a b"}) EXPECT_THROW(scheduler_.partition(name), SchedulerError) << name;
  EXPECT_EQ(count_, 0);
  for (const char* id : {"17", "17_3", "17+1"}) EXPECT_TRUE(scheduler_.job(id)) << id;
}

class Actions : public FakeSlurm {
 protected:
  void SetUp() override {
    FakeSlurm::SetUp();
    for (const char* name : {"scontrol", "scancel", "sbatch"})
      command(name, "echo \"${0##*/} $*\" > " + (folder_ / "asked").string() + "; echo 'Submitted;'; echo '42;pocket'");
  }
  int count_ = 0;
  Scheduler scheduler_{std::make_unique<Counter>(count_)};
};

TEST_F(Actions, RequeueAndCancelOneJob) {
  scheduler_.requeue("17_3");
  EXPECT_EQ(asked(), "scontrol requeue 17_3") << "17 would be all tasks of the array";
  scheduler_.job("17");
  scheduler_.cancel("17");
  EXPECT_EQ(asked(), "scancel 17");
  EXPECT_EQ(scheduler_.job("17")->restarts, 2) << "it is another job now";
}

TEST_F(Actions, Submit) {
  command("sbatch", "cat > " + (folder_ / "script").string() + "; echo \"$*\" > " + (folder_ / "asked").string() +
                        "; echo 'Submitted;'; echo '42;pocket'");
  EXPECT_EQ(scheduler_.submit({"#!/bin/sh\n#SBATCH --nodes=2\n", "/runs/a b", {"--nodes=3", "--time=5"}}), "42");
  EXPECT_EQ(asked(), "--parsable --chdir=/runs/a b --nodes=3 --time=5");
  EXPECT_EQ(std::filesystem::file_size(folder_ / "script"), 28u);
}

TEST_F(Actions, FailInSlurmsWords) {
  for (const char* name : {"scontrol", "scancel", "sbatch"})
    command(name, "echo 'Requested operation is presently disabled' >&2; exit 1");
  const auto in_its_words = HasSubstr("says \"Requested operation is presently disabled\"");
  EXPECT_THAT([&] { scheduler_.requeue("17"); },
              ThrowsMessage<SchedulerError>(AllOf(in_its_words, HasSubstr("submit the same job again"))));
  EXPECT_THAT([&] { scheduler_.cancel("17"); }, ThrowsMessage<SchedulerError>(in_its_words));
  EXPECT_THAT([&] { scheduler_.submit({"job.sh"}); }, ThrowsMessage<SchedulerError>(in_its_words));
  command("sbatch", "echo not a number");
  EXPECT_THROW(scheduler_.submit({"job.sh"}), SchedulerError);
}
}  // namespace
}  // namespace distdl::slurm
