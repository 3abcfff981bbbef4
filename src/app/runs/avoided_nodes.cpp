// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <thread>

#include <fmt/ranges.h>

#include <distdl/app/runs/avoided_nodes.hpp>
#include <distdl/base/clock.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/slurm/host_list.hpp>
#include <distdl/slurm/nodes.hpp>
#include <distdl/slurm/scheduler.hpp>

namespace distdl::app {
namespace {
using Names = std::vector<std::string>;

constexpr Milliseconds kPauseOfTries{300};

bool contains(const Names& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string joined(const Names& names) {
  return fmt::format("{}", fmt::join(names, ","));
}

/// "(null)" is Slurm's word for none.
Names expanded(const std::string& list) {
  return list.empty() || list == "(null)" ? Names() : slurm::expand_host_list(list);
}

/// So is one that was requeued and still ends what it had started.
bool waits(const slurm::JobRecord& record) {
  return record.is_pending() || record.state == "COMPLETING" || record.state == "REQUEUED";
}

/// Throws SchedulerError.
void exclude_once(const std::string& job, const std::filesystem::path& run_folder, double hours) {
  const Names ours = observe::read_exclusion(run_folder, job);
  if (ours.empty() && observe::read_bad_nodes(run_folder).empty()) return;
  const auto record = slurm::scheduler().job(job, slurm::Freshness::now);
  if (!record || !waits(*record)) return;
  Names before = expanded(record->excluded_nodes);
  Names others = before;
  std::erase_if(others, [&](const std::string& node) { return contains(ours, node); });
  const int needed = std::max(1, record->fewest_nodes.value_or(record->nodes));
  const Names avoided =
      nodes_to_avoid(run_folder, hours, record->partition, joined(others), static_cast<std::size_t>(needed));
  Names all = avoided;
  all.insert(all.end(), others.begin(), others.end());
  std::sort(all.begin(), all.end());
  std::sort(before.begin(), before.end());
  if (all == before) return;
  observe::note_exclusion(run_folder, job, avoided);  // first, or they would be taken for the user's own
  slurm::scheduler().exclude_nodes(job, all);
  log(Severity::info, "Slurm does not give {} to job {}", avoided.empty() ? "excluded nodes" : joined(avoided), job);
}
}  // namespace

std::vector<observe::BadNode> nodes_in_cool_down(const std::filesystem::path& run_folder, double hours) {
  auto nodes = observe::read_bad_nodes(run_folder);
  const double since = seconds_since_1970() - hours * 3600;
  std::erase_if(nodes, [&](const observe::BadNode& node) { return node.time < since; });
  return nodes;
}

Names choose_avoided(const std::vector<observe::BadNode>& bad, const slurm::PartitionNodes& nodes,
                     const std::string& excluded, std::size_t needed) {
  const Names by_user = expanded(excluded);
  Names left = nodes.usable;
  std::erase_if(left, [&](const std::string& node) { return contains(by_user, node); });
  Names avoided, kept;
  std::size_t rest = left.size();
  for (const auto& [node, cause, job, time] : bad) {
    if (contains(left, node)) {
      const bool can_go = rest > needed;
      (can_go ? avoided : kept).push_back(node);
      rest -= can_go ? 1 : 0;
    } else if (contains(nodes.others, node) && !contains(by_user, node) && rest >= needed) {
      avoided.push_back(node);
    }
  }
  if (!kept.empty())
    log(Severity::warning, "{} not excluded although bad: only {} nodes are usable, and the job needs {}", joined(kept),
        left.size(), needed);
  return avoided;
}

Names nodes_to_avoid(const std::filesystem::path& run_folder, double hours, const std::string& partitions,
                     const std::string& excluded, std::size_t needed) {
  const auto bad = nodes_in_cool_down(run_folder, hours);
  if (bad.empty()) return {};
  return choose_avoided(bad, slurm::partition_nodes(partitions), excluded, needed);
}

void exclude_bad_nodes(const std::string& job, const std::filesystem::path& run_folder, double hours) {
  constexpr int kTries = 4;
  for (int left = kTries - 1;; --left) try {
      return exclude_once(job, run_folder, hours);
    } catch (const SchedulerError& error) {
      if (left == 0)
        return log(Severity::warning, "{}; job {} may get bad nodes, which its next start leaves out", error.what(),
                   job);
      std::this_thread::sleep_for(kPauseOfTries);
    }
}

}  // namespace distdl::app
