// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include "tests/launch/supervisor_fixture.hpp"
#include <distdl/base/env.hpp>

namespace distdl::launch {

/// Slurm's commands are scripts here; tests/cluster has a real one.
class UnderSlurm : public Supervisor {
 protected:
  void SetUp() override {
    Supervisor::SetUp();
    path_ = env("PATH").value_or("");
    ::setenv("PATH", (folder_.string() + ":" + path_).c_str(), 1);
    ::setenv("SLURM_JOB_END_TIME", "1900000000", 1);
    // Each node has a file while it answers, "up" is there while the controller does.
    for (const char* name : {"n1", "n2", "n3", "up"}) std::ofstream(folder_ / name) << name;
    command("scontrol",
            "[ $2 = hostnames ] && exec printf 'n1\\nn2\\nn3\\n'\n"
            "case $* in *' 1_3') ;; *) echo Invalid job id >&2; exit 1;; esac\n"
            "[ -e up ] || { echo 'Unable to contact slurm controller' >&2; exit 1; }\n"
            "[ $1 = requeue ] && exec echo x >> requeued\necho \"JobId=1 $(cat record)\"");
    command("squeue",
            "case $* in *--steps*) echo batch; echo true; [ ! -e step ] || cat step; exit;; esac; echo '\"job_id\": 1, "
            "\"tres_req_str\": \"cpu=2,node=2\"'");
    std::ofstream(folder_ / "record") << "JobState=RUNNING Restarts=0";
  }
  void TearDown() override {
    ::unsetenv("SLURM_JOB_END_TIME");
    ::setenv("PATH", path_.c_str(), 1);
    Supervisor::TearDown();
  }
  void command(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name) << "#!/bin/sh\ncd " << folder_.string() << "\n" << text << "\n";
    std::filesystem::permissions(folder_ / name, std::filesystem::perms::owner_all);
  }
  /// srun: a probe of a node ends well if it answers; a launch does this.
  void launches_do(const std::string& text) {
    command("srun",
            "case \"$*\" in *--mpi=none*) [ ! -e stop ] || kill -USR1 $PPID; for w; do case $w in --nodelist=*) [ -e "
            "${w#*=} ] || exit 1; case $* in */*) [ ! -e ${w#*=}-has-no-files ] || { echo there is no file; exit 1; "
            "};; esac; "
            "exit 0;; esac; done;; "
            "esac\necho \"$*\" | grep -o -e '--nodes=.*' | sed 's/--cpus.*--nodelist/--nodelist/; s/--cpus.*//' >> "
            "launches\nn=$(wc -l < launches)\n" +
                text);
  }
  LaunchSpec job() {
    auto work = spec("", 6);
    work.allocation = slurm::Allocation{.job = "1", .nodes = 3, .node_list = "n[1-3]", .name = "1_3"};
    return work;
  }
  /// Two ranks on each of two nodes; the third node is a spare.
  LaunchSpec job_with_spare() {
    auto work = job();
    work.agents = true;
    work.spares = 1;
    work.min_nodes = 2;
    work.ranks = 4;
    work.worker.emplace_back("worker");
    return work;
  }
  std::string path_;
};

}  // namespace distdl::launch
