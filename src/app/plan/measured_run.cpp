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
  void take(const observe::Record& row) {
    if (row.event == "job_started") nodes_ = std::max<std::int64_t>(1, row.node_count);
    if (row.event == "started") {
      starts[row.time] = now_ = {row.ranks, row.product};
      first_.reset();
    }
    if (row.memory_bytes > 0) runs[now_].memory_bytes = row.memory_bytes;
    if (row.resources) take(*row.resources);
    if (row.event == "started") runs[now_].nodes = nodes_;
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

  RanksAndProduct now_;
  std::int64_t nodes_ = 1;
  std::optional<Moved> first_;
};
}  // namespace

std::map<RanksAndProduct, MeasuredRun> measured_runs(const std::filesystem::path& run_folder) {
  JournalReader journal;
  observe::for_each_record(run_folder / "journal.jsonl", [&](const observe::Record& row) { journal.take(row); });
  observe::for_each_record(run_folder / "metrics.jsonl", [&](const observe::Record& row) {
    const auto after = journal.starts.upper_bound(row.time);
    if (row.samples_per_s && *row.samples_per_s > 0 && after != journal.starts.begin())
      journal.runs[std::prev(after)->second].samples_per_second.push_back(*row.samples_per_s);
  });
  return std::move(journal.runs);
}

}  // namespace distdl::app
