// SPDX-License-Identifier: Apache-2.0
// What `distdl doctor --signal` makes of the signals that the processes of its trial got; tests/cluster has real ones.
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <distdl/app/checks/signal_probe.hpp>
#include <distdl/app/checks/signal_trial.hpp>

namespace distdl::app {
namespace {
using namespace std::chrono_literals;
using ::testing::HasSubstr;

/// All as it should be: two tasks, signals within a tenth of a second, Slurm's warning after 20 s.
SignalTrial good() {
  SignalTrial trial;
  trial.stages = {
      {TrialStage::tasks, 100}, {TrialStage::batch, 101}, {TrialStage::srun, 102}, {TrialStage::by_warning, 103}};
  trial.tasks = 2;
  trial.limits = {std::chrono::system_clock::from_time_t(160), 60s, slurm::PreemptMode::requeue, 30s};
  trial.may_requeue = true;
  trial.scheduler = "scontrol";
  trial.processes = {{"batch", "n1", 1, {{"USR2", 101.1}, {"USR1", 120}}},
                     {"supervisor", "n1", 2, {{"USR2", 101.2}, {"USR1", 120.1}}}};
  for (int pid : {3, 4})
    trial.processes.push_back({"task", "n1", pid, {{"TERM", 100.1}, {"USR1", 101.3}, {"INT", 102.1}, {"USR1", 120.2}}});
  return trial;
}

/// Of these, those that are not ok.
std::vector<std::string> complaints(const SignalTrial& trial) {
  std::vector<std::string> all;
  for (const auto& finding : judge(trial))
    if (finding.health != Health::ok) all.push_back(finding.what);
  return all;
}

void drop(SignalTrial& trial, std::size_t process, const std::string& signal) {
  std::erase_if(trial.processes.at(process).events, [&](const auto& event) { return event.signal == signal; });
}

TEST(SignalTrial, IsFineIfAllGotAll) {
  EXPECT_TRUE(complaints(good()).empty());
  EXPECT_EQ(judge(good()).back().found, "distdl saves in time when this cluster ends a job");
  const auto json = to_json(good());
  EXPECT_EQ(json["works"], true);
  EXPECT_EQ(json["processes"].size(), 4u);
  EXPECT_THAT(to_text(good()), HasSubstr("USR1 +20.2 s"));
}

TEST(SignalTrial, NamesWhatDoesNotArrive) {
  using ::testing::ElementsAre;
  auto trial = good();
  drop(trial, 3, "TERM");
  EXPECT_THAT(complaints(trial), ElementsAre("preemption", "verdict"));
  trial = good();
  drop(trial, 0, "USR2");
  EXPECT_THAT(complaints(trial), ElementsAre("script", "verdict"));
  trial = good();
  drop(trial, 1, "USR2");
  EXPECT_THAT(complaints(trial), ElementsAre("script", "verdict")) << "the trap does not pass it on";
  trial = good();
  drop(trial, 2, "INT");
  EXPECT_THAT(complaints(trial), ElementsAre("srun")) << "a warning, since nothing of Slurm's takes this way";
  trial = good();
  drop(trial, 0, "USR1");
  EXPECT_THAT(complaints(trial), ElementsAre("--signal", "verdict"));
  trial = good();
  trial.processes[3].events.pop_back();  // the USR1 after the warning
  EXPECT_THAT(complaints(trial), ElementsAre("--signal", "verdict"));
  trial = good();
  trial.processes.pop_back();  // a task that never came
  EXPECT_THAT(complaints(trial), ElementsAre("preemption", "script", "srun", "--signal", "verdict"));
  trial = good();
  trial.may_requeue = false;
  EXPECT_THAT(complaints(trial), ElementsAre("limits"));
  trial.limits.end.reset();
  EXPECT_THAT(complaints(trial), ElementsAre("limits"));
  EXPECT_THAT(complaints(SignalTrial{}), ElementsAre("trial"));
}

TEST(SignalTrial, IsReadFromItsFolder) {
  const auto folder = std::filesystem::path(::testing::TempDir()) / ("trial_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder / "processes");
  std::ofstream(folder / "stages") << "tasks 100.5\nnonsense 1\nwarning 103\n";
  std::ofstream(folder / "facts") << "job=17\ntasks=2\nscheduler=libslurm 22.05\nDISTDL_END_OF_JOB=1900000000\n"
                                     "DISTDL_PREEMPTION=CANCEL\nmay_requeue=1\nDISTDL_GRACE_SECONDS=40\n";
  std::ofstream(folder / "processes" / "task-7-n-1.eu") << "TERM 100.6\nUSR1 101\nIN";  // being written
  std::ofstream(folder / "processes" / "batch-3-n1") << "";
  const auto trial = read_trial(folder);
  std::filesystem::remove_all(folder);
  ASSERT_EQ(trial.stages.size(), 2u);
  EXPECT_EQ(trial.stages[1].stage, TrialStage::by_warning);
  EXPECT_EQ(trial.job, "17");
  EXPECT_EQ(trial.tasks, 2);
  EXPECT_EQ(trial.scheduler, "libslurm 22.05");
  EXPECT_EQ(trial.limits.grace, 40s);
  EXPECT_EQ(trial.limits.preemption, slurm::PreemptMode::cancel);
  EXPECT_EQ(trial.may_requeue, true);
  ASSERT_EQ(trial.processes.size(), 2u);
  EXPECT_EQ(trial.processes[1].host, "n-1.eu");
  EXPECT_EQ(trial.processes[1].pid, 7);
  EXPECT_EQ(trial.processes[1].events.size(), 2u);
}

TEST(SignalTrial, TheScriptQuotesItsPaths) {
  const auto script = trial_script("/opt/it's/distdl", "/a b/$(id)");
  EXPECT_THAT(script, HasSubstr("folder='/a b/$(id)'\n"));
  EXPECT_THAT(script, HasSubstr("program='/opt/it'\\''s/distdl'\n"));
  EXPECT_THAT(script, HasSubstr("#SBATCH --signal=B:USR1@60\n"));
}
}  // namespace
}  // namespace distdl::app
