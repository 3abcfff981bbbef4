// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <charconv>
#include <thread>

#include <fmt/ranges.h>

#include <distdl/base/errors.hpp>
#include <distdl/slurm/commands.hpp>
#include <distdl/slurm/host_list.hpp>
#include <distdl/slurm/nodes.hpp>
#include <distdl/slurm/queries/answers.hpp>
#include <distdl/slurm/scheduler.hpp>

namespace distdl::slurm {
namespace {
using namespace std::chrono_literals;

constexpr Milliseconds kProbeLimit = 10s, kListLimit = 30s;  ///< the latter of all jobs
constexpr Milliseconds kProbeGrace = 5s;  ///< for srun to end its step: one that is killed leaves it behind
constexpr std::size_t kMostProbes = 64;   ///< at once: each is an srun, and a request to the controller

/// The task of a probe: whether all files are there.
constexpr const char* kNoFile = "there is no ";
constexpr const char* kHasAll = R"(for file; do [ -e "$file" ] || { echo "there is no $file"; exit 1; }; done)";

/// One task on one node. Empty if it ran and found all of `files`, else why it did not.
std::string start_task(const std::string& job, const std::string& node, const std::vector<std::string>& files,
                       Milliseconds limit) {
  std::vector<std::string> words{"srun",
                                 "--jobid=" + job,
                                 "--nodes=1",
                                 "--ntasks=1",
                                 "--nodelist=" + node,
                                 "--overlap",
                                 "--mpi=none",
                                 "--input=none",
                                 "--export=ALL",
                                 "sh",
                                 "-c",
                                 kHasAll,
                                 "sh"};
  words.insert(words.end(), files.begin(), files.end());
  auto result = ask(words, limit, kProbeGrace);
  if (result.exit_code == 0) return "";
  if (result.output.starts_with(kNoFile)) return result.output.substr(0, result.output.find('\n'));
  return "srun " + cause_of(result, limit);
}
}  // namespace

std::vector<std::string> nodes_of(const Allocation& allocation) {
  return expand_host_list(allocation.node_list);
}

// scontrol reports it from 23.02 on, libslurm before that, too. Once the job runs, squeue's columns lack it, but not
// the resources that were asked for.
std::optional<int> fewest_nodes(const Allocation& allocation) {
  try {
    const auto record = scheduler().job(allocation.called());
    if (record && record->fewest_nodes) return record->fewest_nodes;
  } catch (const SchedulerError&) {  // then squeue may know
  }
  const auto result = ask({"squeue", "--json", "--jobs", allocation.job}, kListLimit);
  if (result.exit_code != 0) return std::nullopt;
  return fewest_nodes_in(result.output, allocation.job);
}

PartitionNodes partition_nodes(const std::string& partitions) {
  std::vector<std::string> command{"sinfo", "--noheader", "--Node", "--format=%N %P %t"};
  if (!partitions.empty()) command.push_back("--partition=" + partitions);
  const auto result = ask(command, kProbeLimit);
  require<SchedulerError>(result.exit_code == 0, "cannot ask Slurm for the nodes of its partitions: sinfo {}",
                          cause_of(result, kProbeLimit));
  PartitionNodes nodes;
  const auto words = words_in(result.output);
  for (std::size_t i = 0; i + 2 < words.size(); i += 3) {
    const bool counts = !partitions.empty() || words[i + 1].ends_with('*');  // the default partition has a star
    const auto state = words[i + 2].substr(0, words[i + 2].find_first_not_of("abcdefghijklmnopqrstuvwxyz"));
    const bool is_usable = state == "idle" || state == "alloc" || state == "mix" || state == "comp";
    auto& list = is_usable ? nodes.usable : nodes.others;
    if (counts && std::find(list.begin(), list.end(), words[i]) == list.end()) list.push_back(words[i]);
  }
  return nodes;
}

std::optional<std::uint64_t> most_node_memory(const std::string& partitions) {
  std::vector<std::string> command{"sinfo", "--noheader", "--Node", "--format=%m %P"};
  if (!partitions.empty()) command.push_back("--partition=" + partitions);
  const auto result = ask(command, kProbeLimit);
  if (result.exit_code != 0) return std::nullopt;
  std::uint64_t most = 0;  // MiB
  const auto words = words_in(result.output);
  for (std::size_t i = 0; i + 1 < words.size(); i += 2) {
    std::uint64_t own = 0;
    std::from_chars(words[i].data(), words[i].data() + words[i].size(), own);
    if (!partitions.empty() || words[i + 1].ends_with('*')) most = std::max(most, own);
  }
  constexpr std::uint64_t kUncounted = 1;  // RealMemory of a node for which slurm.conf gives none
  if (most <= kUncounted) return std::nullopt;
  return most << 20;
}

std::optional<double> accounted_energy(const std::vector<std::string>& jobs) {
  for (const auto& job : jobs) check_job_id(job);
  if (jobs.empty()) return std::nullopt;
  // A job that was requeued has several records.
  const auto result = ask({"sacct", "--noheader", "--parsable2", "--allocations", "--duplicates",
                           "--format=ConsumedEnergyRaw", fmt::format("--jobs={}", fmt::join(jobs, ","))},
                          kProbeLimit);
  if (result.exit_code != 0) return std::nullopt;
  double joules = 0;
  for (const auto& word : words_in(result.output)) {
    std::uint64_t own = 0;
    std::from_chars(word.data(), word.data() + word.size(), own);
    constexpr auto kUnknown = std::uint64_t{1} << 62;  // NO_VAL64 and INFINITE64 lie above
    if (own < kUnknown) joules += static_cast<double>(own);
  }
  return joules > 0 ? std::optional(joules) : std::nullopt;
}

std::optional<bool> has_step(const Allocation& allocation, const std::string& name) {
  auto result = ask({"squeue", "--steps", "--noheader", "--jobs=" + allocation.job, "--format=%j"}, kProbeLimit);
  if (result.exit_code != 0) return std::nullopt;
  const auto names = words_in(result.output);
  return std::find(names.begin(), names.end(), name) != names.end();
}

Probe probe(const Allocation& allocation, const std::vector<std::string>& nodes, const std::vector<std::string>& files,
            Milliseconds limit, const std::function<bool()>& is_over) {
  std::vector<std::string> causes(nodes.size(), "was not asked any more");  // empty: it answers
  std::atomic<std::size_t> next = 0;
  const auto ask_some = [&] {
    for (std::size_t i; !is_over() && (i = next++) < nodes.size();)
      causes[i] = start_task(allocation.job, nodes[i], files, limit);
  };
  std::vector<std::jthread> threads;
  try {
    for (std::size_t i = 0; i < std::min(kMostProbes, nodes.size()); ++i) threads.emplace_back(ask_some);
  } catch (const std::system_error&) {  // no more threads here: those that there are ask all
  }
  if (threads.empty()) ask_some();
  threads.clear();  // waits for them
  Probe found;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    (causes[i].empty() ? found.answering : found.silent).push_back(nodes[i]);
    found.lacking += causes[i].starts_with(kNoFile);
    if (found.cause.empty()) found.cause = causes[i];
  }
  return found;
}

}  // namespace distdl::slurm
