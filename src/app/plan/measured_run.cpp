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

  void take(const records::Row& row) {
    if (const auto* const job = row.as<records::JobStarted>())
      job_ = {job->ranks, std::max<std::int64_t>(1, job->nodes - spares_)};
    if (const auto* const started = row.as<records::Started>()) {
      starts[row.time] = now_ = {started->world_size, started->product};
      first_.reset();
      runs[now_].nodes = nodes_of(started->world_size);
    }
    if (const auto* const training = row.as<records::StillTraining>(); training && training->memory_bytes > 0.0)
      runs[now_].memory_bytes = *training->memory_bytes;
    if (const auto* const used = row.as<records::ResourcesUsed>()) take(*used);
  }

  std::map<double, RanksAndProduct> starts;
  std::map<RanksAndProduct, MeasuredRun> runs;

 private:
  struct Moved {
    Step step;
    double bytes = 0;
  };

  /// Counters of a start: what they grow by belongs to the steps between two rows.
  void take(const records::ResourcesUsed& used) {
    Moved moved{used.step};
    for (const std::uint64_t bytes : used.moved_bytes) moved.bytes += static_cast<double>(bytes);
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
  observe::for_each_record(run_folder / "journal.jsonl", [&](const records::Row& row) { journal.take(row); });
  observe::for_each_record(run_folder / "metrics.jsonl", [&](const records::Row& row) {
    const auto after = journal.starts.upper_bound(row.time);
    const auto* const done = row.as<records::StepDone>();
    if (done && done->samples_per_s.value_or(0) > 0 && after != journal.starts.begin())
      journal.runs[std::prev(after)->second].samples_per_second.push_back(*done->samples_per_s);
  });
  return std::move(journal.runs);
}

}  // namespace distdl::app
