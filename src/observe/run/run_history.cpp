// SPDX-License-Identifier: Apache-2.0
// What a start reads of the records that the starts before it have left (run_folder.hpp).
#include <algorithm>
#include <array>
#include <utility>

#include <distdl/base/median.hpp>
#include <distdl/observe/record_lines.hpp>
#include <distdl/observe/run/run_folder.hpp>

namespace distdl::observe {
namespace {
/// Of a row of the journal: written by rank 0 while it trains.
bool is_of_training(const std::string& event) {
  static constexpr std::array kEvents{
      "started",     "progress", "shares",    "ranges",   "checkpoint", "snapshot", "snapshot_failed", "save_skipped",
      "save_failed", "audited",  "corrupted", "deadline", "stopped",    "finished", "resources",       "disturbed"};
  return std::find(kEvents.begin(), kEvents.end(), event) != kEvents.end();
}
}  // namespace

checkpoint::FailureRecord read_failures(const std::filesystem::path& run_folder) {
  checkpoint::FailureRecord record;
  double last = 0;
  bool running = false;
  for_each_record(run_folder / "journal.jsonl", [&](const Record& row) {
    if (!is_of_training(row.event)) return;
    if (row.event == "started") {
      record.failures += running;
      last = row.time;  // what lies between two starts is no training
      running = true;
    }
    record.seconds += std::max(0.0, row.time - last);
    last = std::max(last, row.time);
    if (row.event == "stopped" || row.event == "finished") running = false;
  });
  record.failures += running;
  return record;
}

std::vector<Step> read_starts(const std::filesystem::path& run_folder) {
  std::vector<Step> starts;
  for_each_record(run_folder / "journal.jsonl", [&](const Record& row) {
    if (row.event == "started") starts.emplace_back(row.resumed_from);
  });
  return starts;
}

std::optional<Step> read_last_step(const std::filesystem::path& run_folder) {
  constexpr std::size_t kTail = 4096;  // bytes: a few rows
  std::optional<Step> last;
  for_each_record(
      run_folder / "metrics.jsonl",
      [&](const Record& row) {
        if (row.step) last = Step(*row.step);
      },
      kTail);
  return last;
}

std::optional<double> read_loss_after(const std::filesystem::path& run_folder, Step step) {
  std::vector<Record> corruptions;
  std::vector<Record> starts;
  for_each_record(run_folder / "journal.jsonl", [&](const Record& row) {
    if (row.event == "corrupted") corruptions.push_back(row);
    if (row.event == "started") starts.push_back(row);
  });
  /// Of a row.
  struct Place {
    std::int64_t step;
    std::optional<std::int64_t> start;
    double time;
  };
  // Another start may have had another job, or other nodes. Rows of version 1 do not tell their start.
  const auto are_of_one_start = [&](const Place& first, const Record& second) {
    if (first.start && second.start) return *first.start == *second.start;
    return std::ranges::none_of(
        starts, [&](const Record& start) { return first.time < start.time && start.time <= second.time; });
  };
  // Such a loss depends on which rank computed what.
  const auto is_of_mixed_backends = [&](const Record& row) {
    const auto start = std::find_if(starts.rbegin(), starts.rend(), [&](const Record& s) {
      return row.start && s.start ? *row.start == *s.start : s.time <= row.time;
    });
    return start != starts.rend() && start->has_mixed_backends;
  };
  const auto is_doubtful = [&](const Record& row) {
    return std::ranges::any_of(corruptions, [&](const Record& corruption) {
      return row.time <= corruption.time && *row.step > corruption.audited;
    });
  };
  std::optional<double> loss;
  std::optional<Place> before;
  for_each_record(run_folder / "metrics.jsonl", [&](const Record& row) {
    if (!row.step || !row.loss || is_doubtful(row)) return;
    if (*row.step == step.value) loss.reset();  // this state was made again
    if (*row.step == step.value + 1 && before && before->step == step.value && are_of_one_start(*before, row) &&
        !is_of_mixed_backends(row))
      loss = row.loss;
    before = {*row.step, row.start, row.time};
  });
  return loss;
}

train::MeasuredTimes read_measured_times(const std::filesystem::path& run_folder) {
  train::MeasuredTimes times;
  for_each_record(run_folder / "journal.jsonl", [&](const Record& row) {
    if (row.event == "deadline") times = row.times;
  });
  return times;
}

double read_microbatch_seconds(const std::filesystem::path& run_folder, std::int64_t microbatch_size) {
  std::vector<double> seconds;
  for_each_record(run_folder / "journal.jsonl", [&](const Record& row) {
    const bool matches = !row.recomputes && row.microbatch_size.value_or(microbatch_size) == microbatch_size;
    if (matches && !row.microbatch_seconds.empty()) seconds = row.microbatch_seconds;
  });
  return seconds.empty() ? 0 : median(std::move(seconds));
}

}  // namespace distdl::observe
