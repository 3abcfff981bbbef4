// SPDX-License-Identifier: Apache-2.0
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <distdl/base/errors.hpp>
#include <distdl/observe/journal.hpp>
#include <distdl/observe/rank_failure_watch.hpp>
#include <distdl/observe/run/requests.hpp>
#include <distdl/observe/run/run_folder.hpp>
#include <distdl/observe/run/run_identity.hpp>

namespace distdl::observe {
namespace {
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class RunOnDisk : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) / ("journal_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
    ::setenv("XDG_STATE_HOME", (folder_ / "state").c_str(), 1);
  }
  void TearDown() override {
    std::filesystem::remove_all(folder_);
    ::unsetenv("XDG_STATE_HOME");
  }
  void write(const char* name, const std::string& text) const { std::ofstream(folder_ / name) << text; }

  std::filesystem::path folder_;
};

TEST_F(RunOnDisk, KeepsItsJournal) {
  {
    Journal journal(folder_);
    journal.append(records::Submitted{"7", "c0ffee", 1, 2});
    journal.append(records::JobStarted{"7", 1, "n1", "c0ffee", 4, 2, 1234.5});
    journal.append(records::LaunchBegan{4, "n1,n2", "ab12"});
    journal.append(records::LaunchEnded{137, "killed by signal 9", true});
    journal.append(records::Requeued{"7"});
    journal.append(records::CancelRequested{"7", "distdl cancel"});
    journal.append(records::JobEnded{"7", "c0ffee", 76, true, true});
  }
  const auto rows = read_journal(folder_);
  ASSERT_EQ(rows.size(), 7u);
  std::vector<std::string> events;
  for (const auto& row : rows) {
    events.emplace_back(name_of(row.record));
    EXPECT_GT(row.time, 1e9);
  }
  EXPECT_THAT(events, ElementsAre("submitted", "job_started", "launch", "launch_ended", "requeued", "cancel_requested",
                                  "job_ended"));
  const auto& job = std::get<records::JobStarted>(rows[1].record);
  EXPECT_EQ(std::tie(job.job, job.restart, job.host, job.ranks, job.submit_time),
            std::make_tuple("7", 1, "n1", 4, 1234.5));
  EXPECT_EQ(rows[2].as<records::LaunchBegan>()->nodes, "n1,n2");
  EXPECT_EQ(rows[2].as<records::LaunchBegan>()->id, "ab12");
  const auto& launch = std::get<records::LaunchEnded>(rows[3].record);
  EXPECT_EQ(std::tie(launch.cause, launch.code, launch.asked_to_stop),
            std::make_tuple("killed by signal 9", std::optional<int>(137), true));
  const auto& end = std::get<records::JobEnded>(rows[6].record);
  EXPECT_EQ(std::tie(end.chain, end.code, end.is_final, end.has_progressed),
            std::make_tuple("c0ffee", std::optional<int>(76), true, true));
}

TEST_F(RunOnDisk, KnowsTheLaunchThatGoesOn) {
  EXPECT_EQ(present_launch(folder_), std::nullopt);
  Journal journal(folder_);
  journal.append(records::JobStarted{});
  EXPECT_EQ(present_launch(folder_), std::nullopt);
  journal.append(records::LaunchBegan{1, "", "first"});
  journal.append(records::GenerationBegan{2, "a cause", 2, "n1,n2"});
  EXPECT_EQ(present_launch(folder_), "first");
  journal.append(records::LaunchEnded{69});
  EXPECT_EQ(present_launch(folder_), std::nullopt);
  journal.append(records::LaunchBegan{1, "", "second"});
  EXPECT_EQ(present_launch(folder_), "second") << "of the same start";
  journal.append(records::JobStarted{});
  EXPECT_EQ(present_launch(folder_), std::nullopt) << "the start before was killed";
  journal.append(records::LaunchBegan{1});
  EXPECT_EQ(present_launch(folder_), "") << "as an older distdl has it";
}

TEST_F(RunOnDisk, KeepsRecoveriesWithTheTimeAtWhichTheyWereFound) {
  Journal journal(folder_);
  journal.append(records::GenerationFailed{2, "n2: rank 1 was killed by SIGKILL", "killed", "n2", 1}, 1234.5);
  journal.append(records::GenerationFailed{3, "a cause"});
  journal.append(records::GenerationBegan{4, "a cause", 2, "n1,n2"});
  const auto rows = read_journal(folder_);
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].time, 1234.5);
  const auto& failure = std::get<records::GenerationFailed>(rows[0].record);
  EXPECT_EQ(std::tie(failure.cause, failure.kind, failure.node, failure.rank),
            std::make_tuple("n2: rank 1 was killed by SIGKILL", "killed", "n2", std::optional<int>(1)));
  EXPECT_GT(rows[1].time, 1e9);
  const auto& unknown = std::get<records::GenerationFailed>(rows[1].record);
  EXPECT_EQ(std::tie(unknown.kind, unknown.node, unknown.rank), std::make_tuple("", "", std::optional<int>()));
  const auto& generation = std::get<records::GenerationBegan>(rows[2].record);
  EXPECT_EQ(std::tie(generation.ranks, generation.nodes), std::make_tuple(2, "n1,n2"));
}

TEST(Journal, KnowsThatTheNewestLaunchMetAPoisonStep) {
  const records::Row launch{records::LaunchBegan{}}, crash{records::GenerationFailed{.kind = "crashed"}},
      poison{records::GenerationFailed{.kind = "poison step"}}, generation{records::GenerationBegan{}},
      end{records::LaunchEnded{}};
  EXPECT_FALSE(has_met_poison({}));
  EXPECT_FALSE(has_met_poison({launch, crash, generation, crash, end}));
  EXPECT_TRUE(has_met_poison({launch, crash, generation, poison, end}));
  EXPECT_FALSE(has_met_poison({launch, crash, generation, poison, generation, end})) << "a spare was tried";
  EXPECT_FALSE(has_met_poison({launch, poison, end, launch, end})) << "of the launch before";
}

TEST_F(RunOnDisk, ARankOfTheNewestLaunchHasFailed) {
  RankFailureWatch watch(folder_);
  EXPECT_FALSE(watch.has_failed()) << "there is no journal";
  Journal journal(folder_);
  journal.append(records::LaunchBegan{});
  EXPECT_FALSE(watch.has_failed());
  journal.append(records::RankFailed{});
  EXPECT_TRUE(watch.has_failed());
  journal.append(records::LaunchEnded{});
  EXPECT_TRUE(watch.has_failed());
  journal.append(records::LaunchBegan{});
  EXPECT_FALSE(watch.has_failed()) << "of the launch before";
  std::filesystem::remove(folder_ / "journal.jsonl");
  Journal(folder_).append(records::RankFailed{});
  EXPECT_TRUE(watch.has_failed()) << "of another file";
}

TEST_F(RunOnDisk, KnowsTheLinksOfAChain) {
  Journal journal(folder_);
  for (const char* job : {"7", "8", "9"}) journal.append(records::Submitted{job, "mine"});
  journal.append(records::Submitted{"10", "other"});
  journal.append(records::JobStarted{.job = "7", .chain = "mine"});
  EXPECT_THAT(links_after(read_journal(folder_), "mine", "7"), ElementsAre("8", "9"));
  EXPECT_EQ(last_end_of_chain(read_journal(folder_), "mine"), nullptr);
  journal.append(records::JobEnded{.job = "7", .chain = "mine", .code = 75});
  journal.append(records::JobStarted{.job = "8", .chain = "mine"});
  auto rows = read_journal(folder_);
  EXPECT_THAT(links_after(rows, "mine", "8"), ElementsAre("9"));
  EXPECT_THAT(links_after(rows, "other", "10"), IsEmpty());
  EXPECT_EQ(last_end_of_chain(rows, "mine")->code, 75);
  EXPECT_FALSE(chain_has_ended(rows, "mine", "8"));
  journal.append(records::JobEnded{.job = "8", .chain = "mine", .code = 0, .is_final = true});
  rows = read_journal(folder_);
  EXPECT_TRUE(chain_has_ended(rows, "mine", "9"));
  EXPECT_TRUE(chain_has_ended(rows, "mine", "nobody has noted")) << "the job began before its row was written";
  EXPECT_FALSE(chain_has_ended(rows, "other", "10"));
  journal.append(records::Submitted{"11", "mine"});
  EXPECT_FALSE(chain_has_ended(read_journal(folder_), "mine", "11")) << "a user wants it to go on";
}

TEST_F(RunOnDisk, RowsOfJobsAreNoTraining) {
  write("journal.jsonl",
        "{\"event\":\"submitted\",\"time\":100}\n{\"event\":\"job_started\",\"time\":200}\n"
        "{\"event\":\"started\",\"time\":300}\n{\"event\":\"progress\",\"time\":360}\n"
        "{\"event\":\"launch_ended\",\"time\":900,\"code\":69}\n{\"event\":\"launch\",\"time\":950}\n"
        "{\"event\":\"started\",\"time\":1000}\n{\"event\":\"finished\",\"time\":1010}\n"
        "{\"event\":\"job_ended\",\"time\":2000}\n");
  EXPECT_EQ(read_failures(folder_).seconds, 70);
  EXPECT_EQ(read_failures(folder_).failures, 1);
}

TEST_F(RunOnDisk, AChoiceOfCompressionIsOfTraining) {
  write("journal.jsonl",
        "{\"event\":\"started\",\"time\":300}\n{\"event\":\"compression\",\"time\":360,\"step\":9}\n"
        "{\"event\":\"launch_ended\",\"time\":900,\"code\":69}\n");
  EXPECT_EQ(read_failures(folder_).seconds, 60);
}

TEST_F(RunOnDisk, HasOneNameForEver) {
  EXPECT_FALSE(find_identity(folder_));
  const auto identity = identify_run(folder_);
  EXPECT_EQ(identity.id.size(), 12u);
  EXPECT_EQ(identify_run(folder_).id, identity.id);
  EXPECT_NEAR(find_identity(folder_)->created, identity.created, 0.001);
  write("RUN", "id=../../x\ncreated=1\n");
  EXPECT_FALSE(find_identity(folder_));
  EXPECT_THROW(identify_run(folder_), StorageError);
  for (const char* text : {"", "id=0123456789ab", "id=0123456789AB\ncreated=1\n", "id=0123456789ab\ncreated=nan\n",
                           "id=0123456789ab\ncreated=1e300\n"})
    EXPECT_FALSE(identity_from(text)) << text;
}

TEST_F(RunOnDisk, IsFoundInTheIndex) {
  EXPECT_THAT(known_runs(), IsEmpty());
  const auto identity = identify_run(folder_);
  remember_run(identity, folder_);
  remember_run(identity, folder_);
  ASSERT_EQ(known_runs().size(), 1u);
  EXPECT_EQ(known_runs()[0].folder, folder_.lexically_normal());
  remember_run(identity, folder_ / "moved");
  EXPECT_EQ(known_runs()[0].folder, folder_ / "moved");
  std::ofstream(folder_ / "state/distdl/runs/README") << "folder=/x\n";
  std::ofstream(folder_ / "state/distdl/runs/0123456789ab") << "nothing\n";
  EXPECT_EQ(known_runs().size(), 1u);
  forget_run("../runs/README");
  EXPECT_TRUE(std::filesystem::exists(folder_ / "state/distdl/runs/README"));
  forget_run(identity.id);
  EXPECT_THAT(known_runs(), IsEmpty());
  ::setenv("XDG_STATE_HOME", "/proc/nowhere", 1);
  remember_run(identity, folder_);  // is no error
}

TEST_F(RunOnDisk, IsAskedByFiles) {
  FileRequests requests(folder_, Milliseconds(0)), patient(folder_, Milliseconds(60000));
  EXPECT_FALSE(requests.stop());
  EXPECT_FALSE(requests.save());
  EXPECT_FALSE(patient.stop());
  write("SAVE", "");
  EXPECT_TRUE(requests.save());
  EXPECT_FALSE(requests.save()) << "once for each file";
  request_stop(folder_);
  request_stop(folder_);
  EXPECT_EQ(requests.stop(), "the file STOP");
  EXPECT_FALSE(patient.stop()) << "it has just looked";
  EXPECT_TRUE(stop_is_requested(folder_));
  write("SAVE", "");
  drop_requests(folder_);
  drop_requests(folder_);
  EXPECT_FALSE(stop_is_requested(folder_));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "SAVE"));
  EXPECT_TRUE(requests.stop()) << "it stays asked to stop";
}

}  // namespace
}  // namespace distdl::observe
