// SPDX-License-Identifier: Apache-2.0
// Prints what a real Slurm tells, for tests/cluster/scheduler_test.py:
//   scheduler_program libslurm|commands|best job|partition|settings|script [NAME]
//   scheduler_program hosts LIST
#include <cstdio>
#include <string>

#include <fmt/format.h>

#include <distdl/base/errors.hpp>
#include <distdl/base/plugin.hpp>
#include <distdl/slurm/commands.hpp>
#include <distdl/slurm/host_list.hpp>
#include <distdl/slurm/queries/libslurm.hpp>

namespace {
using namespace distdl::slurm;

std::string text_of(const std::optional<Time>& time) {
  return time ? std::to_string(std::chrono::system_clock::to_time_t(*time)) : "none";
}

template <class Value>
std::string text_of(const std::optional<Value>& value) {
  if constexpr (std::is_same_v<Value, Seconds>)
    return value ? std::to_string(value->count()) : "none";
  else
    return value ? fmt::format("{}", *value) : "none";
}

void print(const JobRecord& job) {
  fmt::print("id={}\nname={}\nuser={}\nstate={}\nreason={}\nrestarts={}\nmay_requeue={}\nis_batch={}\nexit={}:{}\n",
             job.id, job.name, job.user, job.state, job.reason, job.restarts, job.may_requeue, job.is_batch,
             job.exit_code, job.signal);
  fmt::print("partition={}\nqos={}\naccount={}\nsubmitted={}\nstarted={}\nends={}\npreempted={}\ntime_limit={}\n",
             job.partition, job.qos, job.account, text_of(job.submitted), text_of(job.started), text_of(job.ends),
             text_of(job.preempted), text_of(job.time_limit));
  fmt::print("node_list={}\nexcluded={}\nbatch_host={}\nnodes={}\nfewest={}\ndependency={}\ncommand={}\n",
             job.node_list, job.excluded_nodes, job.batch_host, job.nodes, text_of(job.fewest_nodes), job.dependency,
             job.command);
  fmt::print("work_folder={}\noutput={}\ncomment={}\n", job.work_folder, job.output, job.comment);
  fmt::print("user_id={}\ntasks={}\ntasks_per_node={}\ncpus_per_task={}\ngpus={}\narray_task={}\ncomponent={}\n",
             text_of(job.user_id), job.tasks, job.tasks_per_node, job.cpus_per_task, job.gpus, job.array_task,
             job.component);
}

void print(const Partition& partition) {
  fmt::print("name={}\nmode={}\ngrace={}\nlongest={}\ntier={}\nstate={}\n", partition.name,
             name_of(partition.preempt_mode), partition.grace.count(), text_of(partition.longest),
             partition.priority_tier, partition.state);
}

void print(const Settings& settings) {
  fmt::print("version={}\ncluster={}\nkill_wait={}\nslurmd_timeout={}\nmessage_timeout={}\ncredential_life={}\n",
             settings.version, settings.cluster, settings.kill_wait.count(), settings.slurmd_timeout.count(),
             settings.message_timeout.count(), settings.credential_life.count());
  fmt::print("type={}\nmode={}\nsends_user_signal={}\nrequeues={}\n", settings.preempt_type,
             name_of(settings.preempt_mode), settings.sends_user_signal, settings.requeues);
}

void print(const std::string& text) {
  fmt::print("{}", text);
}

template <class Value>
void print_or_none(const std::optional<Value>& value) {
  value ? print(*value) : print(std::string("none\n"));
}

std::unique_ptr<Queries> queries_of(const std::string& way) {
  if (way == "best") return best_queries();
  if (way == "commands") return std::make_unique<Commands>();
  return std::make_unique<Libslurm>(distdl::find_plugin("libdistdl_slurm.so").value(), nullptr);
}
}  // namespace

int main(int argc, char** argv) try {
  const std::string way = argc > 2 ? argv[1] : "", kind = argc > 2 ? argv[2] : "", name = argc > 3 ? argv[3] : "";
  if (way == "hosts") {
    for (const auto& host : expand_host_list(kind)) fmt::print("{}\n", host);
    return 0;
  }
  const auto queries = queries_of(way);
  if (kind == "job") print_or_none(queries->job(name));
  if (kind == "partition") print_or_none(queries->partition(name));
  if (kind == "settings") print(queries->settings());
  if (kind == "script") print_or_none(queries->batch_script(name));
  if (kind == "description") print(queries->description() + "\n");
  return 0;
} catch (const std::exception& error) {
  fmt::print(stderr, "{}\n", error.what());
  return 1;
}
