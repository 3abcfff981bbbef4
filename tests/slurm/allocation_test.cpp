// SPDX-License-Identifier: Apache-2.0
// How the environment is read, and which nodes a job has. Slurm's commands are scripts here.
#include <atomic>
#include <filesystem>
#include <tuple>

#include <gmock/gmock.h>
#include <sys/resource.h>

#include "tests/slurm/slurm_fixture.hpp"
#include <distdl/base/errors.hpp>
#include <distdl/base/process.hpp>
#include <distdl/slurm/allocation.hpp>
#include <distdl/slurm/commands.hpp>
#include <distdl/slurm/job_limits.hpp>
#include <distdl/slurm/nodes.hpp>
#include <distdl/slurm/own_step.hpp>
#include <distdl/slurm/queries/answers.hpp>
#include <distdl/slurm/queries/variables.hpp>

namespace distdl::slurm {
namespace {
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

bool never() {
  return false;
}

class SlurmJob : public FakeSlurm {};

TEST_F(SlurmJob, TheNodeIsCalledAsSlurmCallsIt) {
  EXPECT_EQ(name_of_node(), host_name());
  set("SLURMD_NODENAME", "n1");
  EXPECT_EQ(name_of_node(), "n1") << "also where the host is n1.cluster";
  set("SLURMD_NODENAME", "");
  EXPECT_EQ(name_of_node(), host_name());
}

TEST_F(SlurmJob, OutsideOfAJobThereIsNoAllocation) {
  EXPECT_FALSE(current_allocation());
}

TEST_F(SlurmJob, OneTaskANodeIfNothingIsSaid) {
  set("SLURM_JOB_ID", "17");
  set("SLURM_JOB_NUM_NODES", "3");
  auto job = current_allocation();
  ASSERT_TRUE(job);
  EXPECT_EQ(job->job, "17");
  EXPECT_EQ(job->restart, 0);
  EXPECT_EQ(job->nodes, 3);
  EXPECT_EQ(job->tasks, 3);
  EXPECT_EQ(job->cpus_per_task, 1);
}

TEST_F(SlurmJob, TasksPerNodeCountForTheNodesThatWereGiven) {
  set("SLURM_JOB_ID", "17");
  set("SLURM_RESTART_COUNT", "2");
  set("SLURM_JOB_NUM_NODES", "3");
  set("SLURM_NTASKS", "8");  // of the 2 nodes that the job asked for at least
  set("SLURM_NTASKS_PER_NODE", "4");
  set("SLURM_CPUS_PER_TASK", "6");
  auto job = current_allocation();
  ASSERT_TRUE(job);
  EXPECT_EQ(job->restart, 2);
  EXPECT_EQ(job->tasks, 12);
  EXPECT_EQ(job->cpus_per_task, 6);
}

TEST_F(SlurmJob, TheRecordOfTheJobBeatsVariablesOfTheShellThatSubmittedIt) {
  scontrol_with_answers();
  answer("job-17", kRunningJob);
  set("SLURM_JOB_ID", "17");
  const auto truth = current_allocation();
  ASSERT_TRUE(truth);
  for (const char* name : {"SLURM_NTASKS", "SLURM_NTASKS_PER_NODE", "SLURM_CPUS_PER_TASK", "SLURM_JOB_NUM_NODES"})
    set(name, "7");
  set("SLURM_ARRAY_JOB_ID", "17");
  set("SLURM_ARRAY_TASK_ID", "4");
  scheduler().forget();
  const auto job = current_allocation();
  ASSERT_TRUE(job);
  EXPECT_EQ(job->called(), "17");
  EXPECT_EQ(std::tuple(job->nodes, job->tasks, job->cpus_per_task, job->node_list),
            std::tuple(truth->nodes, truth->tasks, truth->cpus_per_task, truth->node_list));
  EXPECT_GT(truth->nodes, 0);
}

TEST_F(SlurmJob, ALargerRestartCountThanTheRecordsIsAnotherJobs) {
  const auto restart = [](std::int64_t record, const char* variable) {
    JobRecord job;
    job.id = "17";
    job.restarts = record;
    return allocation_of(job,
                         [&](const std::string& name) {
                           return name == "SLURM_RESTART_COUNT" && *variable ? std::optional<std::string>(variable)
                                                                             : std::nullopt;
                         })
        .restart;
  };
  EXPECT_EQ(restart(0, "5"), 0);
  EXPECT_EQ(restart(2, "5"), 2);
  EXPECT_EQ(restart(3, "3"), 3);
  EXPECT_EQ(restart(0, ""), 0);
  EXPECT_EQ(restart(3, "2"), 2) << "this process is left over from the start before";
  EXPECT_EQ(restart(3, "many"), 0);
}

TEST_F(SlurmJob, ATasksCountOfTheRecordIsAtLeastOneANode) {
  const auto tasks = [](const std::string& text) {
    const auto record = job_in("JobId=17 JobState=RUNNING " + text, "17");
    return allocation_of(record.value(), [](const std::string&) { return std::nullopt; }).tasks;
  };
  EXPECT_EQ(tasks("NumNodes=3 NumTasks=6 CPUs/Task=1"), 6);
  EXPECT_EQ(tasks("NumNodes=3 NumTasks=2 CPUs/Task=1"), 3) << "asked for with --nodes=2-3";
  EXPECT_EQ(tasks("NumNodes=3"), 3);
  EXPECT_EQ(tasks("NumNodes=3 NumTasks=4 NtasksPerN:B:S:C=2:0:*:*"), 6);
  EXPECT_EQ(tasks("NumNodes=2 NumTasks=6 NtasksPerN:B:S:C=4:0:*:*"), 6) << "--ntasks=6 --ntasks-per-node=4";
}

TEST_F(SlurmJob, NodesThatWereTakenOutOfTheJobAreStillItsOwn) {
  const auto nodes = [](const char* record, const char* variable) {
    JobRecord job;
    job.id = "17";
    job.node_list = record;
    job.nodes = 2;
    return allocation_of(job,
                         [&](const std::string& name) {
                           return name == "SLURM_JOB_NODELIST" ? std::optional<std::string>(variable) : std::nullopt;
                         })
        .node_list;
  };
  EXPECT_EQ(nodes("n[1,3]", "n[1-3]"), "n[1-3]");
  EXPECT_EQ(nodes("n[1-2]", "n[1-2]"), "n[1-2]");
  EXPECT_EQ(nodes("n[1-2]", "n[2-4]"), "n[1-2]") << "another job's";
  EXPECT_EQ(nodes("n[1-2]", "n9"), "n[1-2]");
  EXPECT_EQ(nodes("n[1-2]", "n[["), "n[1-2]");
}

TEST_F(SlurmJob, GpusAndComponentsAreReadOfTheRecord) {
  const auto record = [](const std::string& text) { return job_in("JobId=17 JobState=RUNNING " + text, "17").value(); };
  EXPECT_EQ(record("TresPerJob=gres:gpu:8").gpus, "8");
  EXPECT_EQ(record("TresPerJob=gres/gpu:a100:8").gpus, "a100:8");
  EXPECT_EQ(record("TresPerJob=gpu:2").gpus, "2");
  EXPECT_EQ(record("TresPerJob=cpu:4,gres:gpu:2").gpus, "2");
  EXPECT_EQ(record("TresPerNode=gres:gpu:8").gpus, "") << "not of all nodes together";
  EXPECT_EQ(record("HetJobId=16 HetJobOffset=1").component, "16+1");
  EXPECT_EQ(record("NumNodes=2").component, "");
}

TEST_F(SlurmJob, AJobThatHasEndedIsNoJob) {
  scontrol_with_answers();
  answer("job-17", "JobId=17 JobState=COMPLETED NumNodes=2");
  set("SLURM_JOB_ID", "17");
  EXPECT_FALSE(current_allocation()) << "the shell of a job that has ended";
  set("SLURM_JOB_ID", "18");
  EXPECT_FALSE(current_allocation()) << "Slurm knows no such job";
}

TEST_F(SlurmJob, WithoutARecordTheVariablesCount) {
  scontrol("exit 1");
  set("SLURM_JOB_ID", "17");
  set("SLURM_JOB_NUM_NODES", "3");
  set("SLURM_HET_SIZE", "2");
  const auto job = current_allocation();
  ASSERT_TRUE(job);
  EXPECT_EQ(job->nodes, 3);
  EXPECT_NE(job->component, "");
  ::unsetenv("SLURM_HET_SIZE");
}

TEST_F(SlurmJob, AStepIsKnownByItsSlurmstepd) {
  EXPECT_EQ(step_in_title("slurmstepd: [17.0]     "), "17.0");
  EXPECT_EQ(step_in_title("slurmstepd: [17+1.12]"), "17+1.12");
  for (const char* title : {"slurmstepd: [17.batch]", "slurmstepd: [17.interactive]", "slurmstepd: [17]", "slurmstepd",
                            "slurmstepd: [17.", "bash", ""})
    EXPECT_FALSE(step_in_title(title)) << title;
}

TEST_F(SlurmJob, CommandsOfSlurmGetNoVariablesButThoseOfTheTable) {
  command("squeue", "env | grep -E '^(SLURM|SQUEUE|SBATCH|SRUN)' | sort > " + folder_.string() + "/variables");
  const std::vector<std::string> hostile{"SQUEUE_PARTITION", "SLURM_TIME_FORMAT", "SBATCH_TIMELIMIT",
                                         "SRUN_CPUS_PER_TASK", "SLURM_WORKING_CLUSTER"};
  for (const auto& name : hostile) set(name, "1");
  set("SLURM_CONF", "/etc/slurm.conf");
  set("SLURM_CLUSTERS", "b");
  EXPECT_EQ(ask({"squeue"}, std::chrono::seconds(20)).exit_code, 0);
  EXPECT_EQ(asked("variables"), "SLURM_CLUSTERS=b");
  set("SLURM_JOB_ID", "17");
  EXPECT_EQ(ask({"squeue"}, std::chrono::seconds(20)).exit_code, 0);
  EXPECT_EQ(asked("variables"), "SLURM_CONF=/etc/slurm.conf") << "a job is of the cluster that its nodes know";
  for (const auto& name : hostile) ::unsetenv(name.c_str());
  ::unsetenv("SLURM_CONF");
  ::unsetenv("SLURM_CLUSTERS");
}

TEST_F(SlurmJob, ASubmissionTakesOverWhatTheTableSaysAndNothingElse) {
  command("sbatch", "echo \"$@\" > " + folder_.string() + "/asked\necho 18");
  set("SBATCH_ACCOUNT", "physics");
  set("SBATCH_TIMELIMIT", "1");
  set("SBATCH_PARTITION", "debug");
  EXPECT_EQ(scheduler().submit({"#!/bin/sh\n#SBATCH -p batch\n", "/"}), "18");
  EXPECT_EQ(asked(), "--parsable --chdir=/ --account=physics");
  EXPECT_EQ(scheduler().submit({"#!/bin/sh\n", "/", {"--account=x", "--partition=y"}}), "18");
  EXPECT_EQ(asked(), "--parsable --chdir=/ --account=x --partition=y");
  for (const char* name : {"SBATCH_ACCOUNT", "SBATCH_TIMELIMIT", "SBATCH_PARTITION"}) ::unsetenv(name);
}

TEST_F(SlurmJob, RefusesAVariableThatIsNoNumber) {
  set("SLURM_JOB_ID", "17");
  set("SLURM_NTASKS", "many");
  EXPECT_THROW(current_allocation(), ConfigError);
}

TEST_F(SlurmJob, RefusesNumbersThatAreNoCounts) {
  set("SLURM_JOB_ID", "17");
  const auto complaint = [&](const std::string& name, const std::string& value) {
    set(name, value);
    std::string text = "no error";
    try {
      current_allocation();
    } catch (const ConfigError& error) {
      text = error.what();
    }
    set(name, "");
    return text;
  };
  for (const char* value : {"-1", "0", "4294967297"})
    EXPECT_THAT(complaint("SLURM_JOB_NUM_NODES", value), HasSubstr("expected a number from 1 to")) << value;
  EXPECT_THAT(complaint("SLURM_NTASKS", "-1"), HasSubstr("SLURM_NTASKS=\"-1\" is out of range"));
  set("SLURM_JOB_NUM_NODES", "65536");
  EXPECT_THAT(complaint("SLURM_NTASKS_PER_NODE", "65536"), HasSubstr("too many tasks on 65536 nodes"));
}

TEST_F(SlurmJob, AnEndByVariableThatIsOverOrNoTimeIsIgnored) {
  for (const char* value : {"1000", "0", "-5", "9223372036854775807"}) {
    set("SLURM_JOB_END_TIME", value);
    EXPECT_EQ(end_of_job_by_variable(), std::nullopt) << value;
  }
  set("SLURM_JOB_END_TIME", "1900000000");
  EXPECT_EQ(end_of_job_by_variable(), std::chrono::system_clock::from_time_t(1900000000));
}

TEST_F(SlurmJob, KnowsItsNodesAndHowManyItNeeds) {
  scontrol("exit 1");
  EXPECT_THAT(nodes_of({.job = "17", .node_list = "n[1-3]"}), ElementsAre("n1", "n2", "n3"));
  command(
      "squeue",
      "echo '{\"jobs\": [{\"array_job_id\": 17, \"job_id\": 7, \"tres_req_str\": \"cpu=1,node=1\"},\n {\"job_id\": 17, "
      "\"tres_req_str\": \"cpu=1,mem=8G,node=2,billing=1\", \"tres_alloc_str\": \"cpu=6,node=3\"}, {\"job_id\": 170, "
      "\"tres_req_str\": \"node=64\"}, {\"job_id\": 18}]}'");
  EXPECT_EQ(fewest_nodes({.job = "17"}), 2);
  EXPECT_EQ(fewest_nodes({.job = "170"}), 64);
  EXPECT_EQ(fewest_nodes_in("\"job_id\": 17", "17"), std::nullopt) << "cut off";
  for (const char* job : {"1", "18", ""}) EXPECT_EQ(fewest_nodes({.job = job}), std::nullopt) << job;
  command("squeue", "echo '{ \"jobs\": [{\"job_id\": 17, \"tres_req_str\": null}] }'");
  EXPECT_EQ(fewest_nodes({.job = "17"}), std::nullopt);
  command("squeue", "exit 1");
  EXPECT_EQ(fewest_nodes({.job = "17"}), std::nullopt);
  scontrol("echo JobId=17 JobState=RUNNING ReqTRES=cpu=1,node=5");
  EXPECT_EQ(fewest_nodes({.job = "17"}), 5) << "where scontrol tells it, nobody lists all jobs";
}

TEST_F(SlurmJob, KnowsTheEnergyThatIsAccounted) {
  command("sacct",
          "case \"$*\" in *--jobs=17,12_3) ;; *) exit 1 ;; esac; printf '1000\\n\\n0\\n18446744073709551614\\n500\\n'");
  EXPECT_EQ(accounted_energy({"17", "12_3"}), 1500);
  EXPECT_EQ(accounted_energy({"17"}), std::nullopt);
  EXPECT_EQ(accounted_energy({}), std::nullopt);
  EXPECT_THROW(accounted_energy({"--help"}), SchedulerError);
  command("sacct", "echo 0");
  EXPECT_EQ(accounted_energy({"17"}), std::nullopt) << "gathered by no plug-in";
}

TEST_F(SlurmJob, FindsAStepByItsName) {
  command("squeue", "[ \"$*\" = '--steps --noheader --jobs=17 --format=%j' ] && printf 'batch\\ntrue\\ndistdl-1\\n'");
  EXPECT_EQ(has_step({.job = "17"}, "distdl-1"), true);
  EXPECT_EQ(has_step({.job = "17"}, "distdl-2"), false) << "others do not count, as one of a lost probe";
  command("squeue", "exit 1");
  EXPECT_EQ(has_step({.job = "17"}, "distdl-1"), std::nullopt);
}

TEST_F(SlurmJob, AsksEachNodeWhetherItAnswers) {
  command("srun",
          "[ -z \"$SLURM_GPUS\" ] || exit 1; case \"$*\" in *nodelist=n2*) echo 'srun: error: Communication connection "
          "failure' >&2; exit 233;; "
          "*nodelist=n4*) trap 'touch \"${0%/*}/ended\"; exit' TERM; while :; do sleep 0.05; done;; esac");
  set("SLURM_GPUS", "8");  // of all nodes together
  auto found = probe({.job = "17"}, {"n1", "n2", "n3"}, {}, std::chrono::seconds(20), never);
  EXPECT_THAT(found.answering, ElementsAre("n1", "n3"));
  EXPECT_THAT(found.silent, ElementsAre("n2"));
  EXPECT_EQ(found.cause, "srun says \"srun: error: Communication connection failure\"");
  found = probe({.job = "17"}, {"n4"}, {}, std::chrono::seconds(1), never);
  EXPECT_EQ(found.cause, "srun did not answer within 1 s");
  EXPECT_TRUE(std::filesystem::exists(folder_ / "ended")) << "killed, srun would leave its step behind";
  ::unsetenv("SLURM_GPUS");
}

TEST_F(SlurmJob, ANodeThatLacksAFileIsSilent) {
  command("srun", "while [ \"$1\" != sh ]; do shift; done; exec \"$@\"");
  const std::string here = folder_.string(), away = (folder_ / "not mounted").string();
  EXPECT_THAT(probe({.job = "17"}, {"n1"}, {here, here}, std::chrono::seconds(20), never).answering, ElementsAre("n1"));
  const auto found = probe({.job = "17"}, {"n1"}, {here, away}, std::chrono::seconds(20), never);
  EXPECT_THAT(found.silent, ElementsAre("n1"));
  EXPECT_EQ(found.cause, "there is no " + away);
}

TEST_F(SlurmJob, AsksNoMoreNodesOnceItIsOver) {
  command("srun", "exit 0");
  std::atomic<int> left = 2;
  const auto found =
      probe({.job = "17"}, {"n1", "n2", "n3"}, {}, std::chrono::seconds(20), [&] { return left-- <= 0; });
  EXPECT_THAT(found.answering, ElementsAre("n1", "n2"));
  EXPECT_THAT(found.silent, ElementsAre("n3"));
  EXPECT_EQ(found.cause, "was not asked any more");
}

TEST_F(SlurmJob, WhereNoCommandCanBeStartedSlurmDoesNotTell) {
  for (const char* name : {"scontrol", "squeue", "srun"}) command(name, "exit 0");
  const Allocation job{.job = "17", .node_list = "n1"};
  rlimit files{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &files), 0);
  const int free_one = ::dup(STDERR_FILENO);
  ASSERT_EQ(::close(free_one), 0);
  // A command wants more than one pipe; a sanitizer wants one when it looks at what is thrown.
  const rlimit few{static_cast<rlim_t>(free_one) + 2, files.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  EXPECT_EQ(has_step(job, "s"), std::nullopt);
  EXPECT_EQ(fewest_nodes(job), std::nullopt);
  EXPECT_EQ(job_limits(job, scheduler()).end, std::nullopt);
  const auto says_why = ThrowsMessage<SchedulerError>(HasSubstr("scontrol was not started: cannot make a pipe"));
  EXPECT_THAT([&] { scheduler().requeue("17"); }, says_why);
  EXPECT_THROW(scheduler().job("17"), SchedulerError);
  const auto found = probe(job, {"n1"}, {}, std::chrono::seconds(20), never);
  EXPECT_THAT(found.cause, HasSubstr("srun was not started"));
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &files), 0);
}

TEST_F(SlurmJob, OneTaskOfAnArrayIsCalledByItsName) {
  set("SLURM_JOB_ID", "17");
  set("SLURM_ARRAY_JOB_ID", "17");
  set("SLURM_ARRAY_TASK_ID", "3");
  EXPECT_EQ(current_allocation()->called(), "17_3") << "17 would be all tasks of the array";
  set("SLURM_JOB_ID", "20");
  EXPECT_EQ(current_allocation()->called(), "20") << "another task, or a job that a task has submitted";
}
}  // namespace
}  // namespace distdl::slurm
