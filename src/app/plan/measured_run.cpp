// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include <distdl/app/plan/measured_run.hpp>
#include <distdl/observe/record_lines.hpp>

namespace distdl::app {
namespace {
/// The rows of a journal, the oldest first.
class JournalReader {
 public:
  explicit JournalReader(std::int64_t spares) : spares_(spares) {}

  void take(const observe::Record& row) {
    if (row.event == "job_started") job_ = {row.ranks, std::max<std::int64_t>(1, row.node_count - spares_)};
    if (row.event == "started") {
      starts[row.time] = now_ = {row.ranks, row.product};
      first_.reset();
    }
    if (row.memory_bytes > 0) runs[now_].memory_bytes = row.memory_bytes;
    if (row.resources) take(*row.resources);
    if (row.event == "started") runs[now_].nodes = nodes_of(row.ranks);
  }

  std::map<double, RanksAndProduct> starts;
  std::map<RanksAndProduct, MeasuredRun> runs;

 private:
  struct Moved {
    Step step;
    double bytes = 0;
  };

  /// Counters of a start: what they grow by belongs to the steps between two rows.
  void take(const train::ResourcesUsed& used) {
    Moved moved{used.step};
    for (const auto& each : used.collectives) moved.bytes += static_cast<double>(each.bytes);
    if (!first_) first_ = moved;
    if (moved.step > first_->step)
      runs[now_].moved_bytes =
          (moved.bytes - first_->bytes) / static_cast<double>(moved.step.value - first_->step.value);
  }

  /// Nodes that are lost, or join later, do not change how many ranks each has.
  std::int64_t nodes_of(std::int64_t ranks) const {
    if (job_.ranks == 0) return 1;
    const std::int64_t each = job_.ranks % job_.nodes == 0 ? job_.ranks / job_.nodes : 0;
    return each > 0 && ranks % each == 0 ? ranks / each : 0;
  }

  struct JobRanks {
    std::int64_t ranks = 0, nodes = 1;  ///< as it began, without spares; no ranks: not known
  };

  std::int64_t spares_;
  JobRanks job_;
  RanksAndProduct now_;
  std::optional<Moved> first_;
};
}  // namespace

std::map<RanksAndProduct, MeasuredRun> measured_runs(const std::filesystem::path& run_folder, std::int64_t spares) {
  JournalReader journal(spares);
  observe::for_each_record(run_folder / "journal.jsonl", [&](const observe::Record& row) { journal.take(row); });
  observe::for_each_record(run_folder / "metrics.jsonl", [&](const observe::Record& row) {
    const auto after = journal.starts.upper_bound(row.time);
    if (row.samples_per_s && *row.samples_per_s > 0 && after != journal.starts.begin())
      journal.runs[std::prev(after)->second].samples_per_second.push_back(*row.samples_per_s);
  });
  return std::move(journal.runs);
}

}  // namespace distdl::app
