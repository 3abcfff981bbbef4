// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <distdl/slurm/scheduler.hpp>

namespace distdl::slurm {

/// Slurm's commands are scripts in a folder of its own; tests/cluster asks a real Slurm.
class FakeSlurm : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) / ("slurm_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
    for (const char* name : kNames) set(name, "");
    set("DISTDL_PLUGIN_PATH", folder_.string());  // no libslurm: it would ask the real cluster, or end the process
    set("TZ", "UTC");
    ::tzset();
    path_ = ::getenv("PATH");
    scheduler().forget();
  }
  void TearDown() override {
    for (const char* name : kNames) ::unsetenv(name);
    ::unsetenv("DISTDL_PLUGIN_PATH");
    set("PATH", path_);
    std::filesystem::remove_all(folder_);
  }
  static void set(const std::string& name, const std::string& value) { ::setenv(name.c_str(), value.c_str(), 1); }
  /// A command that runs this shell text.
  void command(const std::string& name, const std::string& text) {
    const auto file = folder_ / name;
    std::ofstream(file) << "#!/bin/sh\n" << text << "\n";
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
    set("PATH", folder_.string() + ":" + path_);
    scheduler().forget();
  }
  void scontrol(const std::string& text) { command("scontrol", text); }
  /// A scontrol that answers questions from files, as the false plug-in does (fake_plugin.cpp).
  void scontrol_with_answers() {
    scontrol("cd " + folder_.string() +
             "\ncase \"$1 $2\" in 'show config') f=config-;; 'write batch_script') f=script-$3;; *) f=$2-$3;; esac\n"
             "[ -e $f ] || { [ $2 = partition ] && echo Partition $3 not found || echo 'slurm_load_jobs error: Invalid "
             "job id specified' >&2; exit 1; }\nread -r first < $f\ncase $first in FAIL*) echo \"${first#FAIL }\" >&2; "
             "exit 1;; esac\ncat $f");
  }
  void answer(const std::string& question, const std::string& text) { std::ofstream(folder_ / question) << text; }
  std::string asked(const std::string& file = "asked") const {
    std::string line;
    std::getline(std::ifstream(folder_ / file), line);
    return line;
  }

  static constexpr const char* kNames[] = {"SLURM_JOB_ID",          "SLURM_RESTART_COUNT", "SLURM_JOB_NUM_NODES",
                                           "SLURM_NTASKS",          "SLURM_CPUS_PER_TASK", "SLURM_JOB_END_TIME",
                                           "SLURM_NTASKS_PER_NODE", "SLURM_ARRAY_JOB_ID",  "SLURM_ARRAY_TASK_ID",
                                           "SBATCH_SIGNAL",         "SLURMD_NODENAME"};
  std::filesystem::path folder_;
  std::string path_;
};

/// What scontrol of 22.05 prints of a job that runs.
inline constexpr const char* kRunningJob = R"(JobId=17 JobName=my job State=x
   UserId=alice(1000) GroupId=users(100) MCS_label=N/A
   Priority=4294901759 Nice=0 Account=(null) QOS=normal
   JobState=RUNNING Reason=None Dependency=(null)
   Requeue=1 Restarts=3 BatchFlag=1 Reboot=0 ExitCode=0:0
   RunTime=00:00:01 TimeLimit=00:05:00 TimeMin=N/A
   SubmitTime=1772366000 EligibleTime=1772366000
   AccrueTime=1772366000
   StartTime=1772366100 EndTime=1772366400 Deadline=N/A
   PreemptEligibleTime=1772366100 PreemptTime=None
   SuspendTime=None SecsPreSuspend=0 LastSchedEval=1772366100 Scheduler=Backfill
   Partition=batch AllocNode:Sid=login:12166
   ReqNodeList=(null) ExcNodeList=n7
   NodeList=n[1-3]
   BatchHost=n1
   NumNodes=3 NumCPUs=6 NumTasks=3 CPUs/Task=1 ReqB:S:C:T=0:0:*:*
   ReqTRES=cpu=2,mem=8G,node=2,billing=2
   TRES=cpu=6,node=3,billing=6
   Features=(null) DelayBoot=00:00:00
   OverSubscribe=OK Contiguous=0 Licenses=(null) Network=(null)
   Command=/data/alice/my jobs/train.sbatch job.toml --set a=b
   WorkDir=/data/alice/my jobs
   Comment=first try State=DOWN JobState=FAILED
   StdErr=/data/alice/my jobs/slurm-17.out
   StdIn=/dev/null
   StdOut=/data/alice/my jobs/slurm-17.out
   Power=
)";

inline constexpr const char* kPartition = R"(PartitionName=batch
   AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL
   AllocNodes=ALL Default=YES QoS=N/A
   DefaultTime=NONE DisableRootJobs=NO ExclusiveUser=NO GraceTime=120 Hidden=NO
   MaxNodes=UNLIMITED MaxTime=2-00:00:00 MinNodes=0 LLN=NO MaxCPUsPerNode=UNLIMITED
   Nodes=n[1-3]
   PriorityJobFactor=1 PriorityTier=7 RootOnly=NO ReqResv=NO OverSubscribe=NO
   OverTimeLimit=NONE PreemptMode=CANCEL
   State=UP TotalCPUs=4 TotalNodes=3 SelectTypeParameters=NONE
)";

inline constexpr const char* kConfig = R"(Configuration data as of 2026-11-24T14:45:30
AuthInfo                = socket=/run/munge/socket,cred_expire=60
ClusterName             = pocket
JobRequeue              = 1
KillWait                = 45 sec
MessageTimeout          = 20 sec
OverTimeLimit           = 0 min
PreemptMode             = GANG,SUSPEND
PreemptType             = preempt/partition_prio
PreemptParameters       = send_user_signal,strict_order
SlurmctldParameters     = (null)
SlurmdTimeout           = 300 sec
SLURM_VERSION           = 23.11.4

Slurmctld(primary) at ctl is UP
)";

}  // namespace distdl::slurm
