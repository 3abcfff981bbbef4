// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <numeric>

#include <distdl/app/sweep/sweep_plan.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/shortage.hpp>
#include <distdl/observe/causes.hpp>
#include <distdl/observe/record_lines.hpp>
#include <distdl/observe/result.hpp>

namespace distdl::app {
namespace {
constexpr std::int64_t kWhole = std::numeric_limits<std::int64_t>::max();  ///< a step after all others

bool has_got_to(const SweptRun& run, std::int64_t end_at) {
  if (run.state == SweptRun::State::failed || run.state == SweptRun::State::finished) return true;
  return end_at > 0 && run.steps >= end_at && run.value_at(end_at).has_value();
}

/// Of train.end_at_step, rather than of train.stop_early_patience.
bool is_of_a_part(const observe::Result& result) {
  return result.cause_code == observe::kStoppedEarly && result.cause.starts_with("train.end_at_step");
}

/// Best first; equal ones by their numbers.
std::vector<std::size_t> sorted_by_value(std::vector<std::size_t> runs, train::Metric metric,
                                         const std::vector<SweptRun>& told, std::int64_t step) {
  const auto value = [&](std::size_t run) {
    return told[run].state == SweptRun::State::failed ? std::nullopt : told[run].value_at(step);
  };
  std::stable_sort(runs.begin(), runs.end(),
                   [&](std::size_t a, std::size_t b) { return is_better_value(metric, value(a), value(b)); });
  return runs;
}

std::vector<std::size_t> left_of(const SweepRung& rung, const std::vector<SweptRun>& runs) {
  std::vector<std::size_t> left;
  for (const std::size_t run : rung.runs)
    if (!has_got_to(runs[run], rung.end_at)) left.push_back(run);
  return left;
}
}  // namespace

bool is_better_value(train::Metric metric, std::optional<double> one, std::optional<double> other) {
  if (!one || !other) return one.has_value() && !other.has_value();
  return metric == train::Metric::loss ? *one < *other : *one > *other;
}

std::optional<double> SweptRun::value_at(std::int64_t step) const {
  const auto after = values.upper_bound(step);
  return after == values.begin() ? std::nullopt : std::optional(std::prev(after)->second);
}

std::optional<double> SweptRun::best(train::Metric metric) const {
  std::optional<double> best;
  for (const auto& [step, value] : values)
    if (is_better_value(metric, value, best)) best = value;
  return best;
}

SweptRun read_swept_run(const std::filesystem::path& folder, train::Metric metric) {
  SweptRun run;
  observe::for_each_record(folder / "metrics.jsonl", [&](const observe::Record& row) {
    if (!row.step) return;
    run.steps = *row.step;
    run.state = SweptRun::State::unfinished;
    const auto value = metric == train::Metric::loss ? row.validation_loss : row.validation_accuracy;
    if (value) run.values[*row.step] = *value;
  });
  try {
    const auto result = observe::read_result(folder);
    run.steps = result.steps;
    const bool has_finished = result.status == observe::ResultStatus::finished;
    if (has_finished) run.state = is_of_a_part(result) ? SweptRun::State::paused : SweptRun::State::finished;
    if (result.status != observe::ResultStatus::failed) return run;
    run.state = SweptRun::State::failed;
    run.failure = result.cause;
  } catch (const StorageError& error) {  // it has not ended
    pass_on_shortage(error);
  }
  return run;
}

std::vector<SweptRun> read_swept_runs(const Sweep& sweep, const std::filesystem::path& folder) {
  std::vector<SweptRun> runs;
  const std::size_t count = points_of(sweep).size();
  for (std::size_t run = 0; run < count; ++run) runs.push_back(read_swept_run(folder / name_of_run(run), sweep.metric));
  return runs;
}

SweepRung next_rung(const Sweep& sweep, const std::vector<SweptRun>& runs, std::int64_t rounds_held) {
  SweepRung rung;
  rung.runs.resize(runs.size());
  std::iota(rung.runs.begin(), rung.runs.end(), std::size_t{0});
  if (sweep.method == SweepMethod::tournament) {
    if (rounds_held < sweep.rounds) rung.round = rounds_held + 1;
    rung.end_at = rung.round * sweep.first_steps;
    rung.left = left_of(rung, runs);
    return rung;
  }
  const auto one_in = static_cast<std::size_t>(sweep.keep_one_in);
  const bool is_halving = sweep.method == SweepMethod::halving;
  rung.end_at = is_halving && rung.runs.size() >= one_in ? sweep.first_steps : 0;
  while (true) {
    rung.left = left_of(rung, runs);
    if (!rung.left.empty() || rung.end_at == 0) return rung;
    rung.runs = sorted_by_value(std::move(rung.runs), sweep.metric, runs, rung.end_at);
    rung.runs.resize(rung.runs.size() / one_in);
    std::sort(rung.runs.begin(), rung.runs.end());
    const bool is_last = rung.runs.size() < one_in || rung.end_at > kWhole / sweep.keep_one_in;
    rung.end_at = is_last ? 0 : rung.end_at * sweep.keep_one_in;
  }
}

std::optional<double> value_of(const Sweep& sweep, const SweptRun& run) {
  return sweep.method == SweepMethod::tournament ? run.value_at(kWhole) : run.best(sweep.metric);
}

std::vector<std::size_t> ranking(const Sweep& sweep, const std::vector<SweptRun>& runs) {
  std::vector<std::size_t> order(runs.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto value = [&](std::size_t run) {
    return runs[run].state == SweptRun::State::failed ? std::nullopt : value_of(sweep, runs[run]);
  };
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const bool by_steps = sweep.method == SweepMethod::halving && value(a) && value(b);
    const auto length = [&](std::size_t run) {
      return runs[run].state == SweptRun::State::finished ? kWhole : runs[run].steps;
    };
    if (by_steps && length(a) != length(b)) return length(a) > length(b);
    return is_better_value(sweep.metric, value(a), value(b));
  });
  return order;
}

}  // namespace distdl::app
