// SPDX-License-Identifier: Apache-2.0
// What a start reads of the records that the starts before it have left (run_folder.hpp).
#include <algorithm>
#include <utility>

#include <distdl/base/median.hpp>
#include <distdl/observe/record_lines.hpp>
#include <distdl/observe/run/run_folder.hpp>

namespace distdl::observe {

checkpoint::FailureRecord read_failures(const std::filesystem::path& run_folder) {
  checkpoint::FailureRecord record;
  double last = 0;
  bool running = false;
  for_each_record(run_folder / "journal.jsonl", [&](const records::Row& row) {
    if (!kind_of(row.record).traits.is_of_training) return;
    if (row.is<records::Started>()) {
      record.failures += running;
      last = row.time;  // what lies between two starts is no training
      running = true;
    }
    record.seconds += std::max(0.0, row.time - last);
    last = std::max(last, row.time);
    if (row.is<records::Stopped, records::Finished>()) running = false;
  });
  record.failures += running;
  return record;
}

std::vector<Step> read_starts(const std::filesystem::path& run_folder) {
  std::vector<Step> starts;
  for_each_record(run_folder / "journal.jsonl", [&](const records::Row& row) {
    if (const auto* const started = row.as<records::Started>())
      starts.push_back(started->resumed_from.value_or(Step(0)));
  });
  return starts;
}

std::optional<Step> read_last_step(const std::filesystem::path& run_folder) {
  constexpr std::size_t kTail = 4096;  // bytes: a few rows
  std::optional<Step> last;
  for_each_record(
      run_folder / "metrics.jsonl",
      [&](const records::Row& row) {
        if (const auto step = step_of(row.record)) last = step;
      },
      kTail);
  return last;
}

std::optional<double> read_loss_after(const std::filesystem::path& run_folder, Step step) {
  std::vector<records::Row> corruptions;
  std::vector<records::Row> starts;
  for_each_record(run_folder / "journal.jsonl", [&](const records::Row& row) {
    if (row.is<records::Corrupted>()) corruptions.push_back(row);
    if (row.is<records::Started>()) starts.push_back(row);
  });
  /// Step, start and time of a row.
  struct Place {
    Step step;
    std::optional<std::int64_t> start;
    double time;
  };
  // Another start may have had another job, or other nodes. Rows of version 1 do not tell their start.
  const auto are_of_one_start = [&](const Place& first, const records::Row& second) {
    if (first.start && second.start) return *first.start == *second.start;
    return std::ranges::none_of(
        starts, [&](const records::Row& start) { return first.time < start.time && start.time <= second.time; });
  };
  // Such a loss depends on which rank computed what.
  const auto is_of_mixed_backends = [&](const records::Row& row) {
    const auto start = std::find_if(starts.rbegin(), starts.rend(), [&](const records::Row& s) {
      return row.start && s.start ? *row.start == *s.start : s.time <= row.time;
    });
    return start != starts.rend() && start->as<records::Started>()->has_mixed_backends;
  };
  const auto is_doubtful = [&](double time, Step done) {
    return std::ranges::any_of(corruptions, [&](const records::Row& corruption) {
      return time <= corruption.time && done > corruption.as<records::Corrupted>()->audited.value_or(Step(0));
    });
  };
  std::optional<double> loss;
  std::optional<Place> before;
  for_each_record(run_folder / "metrics.jsonl", [&](const records::Row& row) {
    const auto* const done = row.as<records::StepDone>();
    if (!done || !done->loss || is_doubtful(row.time, done->step)) return;
    if (done->step == step) loss.reset();  // this state was made again
    if (done->step == Step(step.value + 1) && before && before->step == step && are_of_one_start(*before, row) &&
        !is_of_mixed_backends(row))
      loss = done->loss;
    before = {done->step, row.start, row.time};
  });
  return loss;
}

records::MeasuredTimes read_measured_times(const std::filesystem::path& run_folder) {
  records::MeasuredTimes times;
  for_each_record(run_folder / "journal.jsonl", [&](const records::Row& row) {
    if (const auto* const deadline = row.as<records::DeadlineKnown>()) times = deadline->times;
  });
  return times;
}

double read_microbatch_seconds(const std::filesystem::path& run_folder, std::int64_t microbatch_size) {
  std::vector<double> seconds;
  for_each_record(run_folder / "journal.jsonl", [&](const records::Row& row) {
    const auto* const shares = row.as<records::SharesKnown>();
    if (!shares || shares->recomputes || shares->microbatch_seconds.empty()) return;
    const bool is_told = shares->microbatch_size > 0;
    if (!is_told || shares->microbatch_size == microbatch_size) seconds = shares->microbatch_seconds;
  });
  return seconds.empty() ? 0 : median(std::move(seconds));
}

}  // namespace distdl::observe
