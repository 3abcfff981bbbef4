// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <numeric>

#include <distdl/app/sweep/sweep_plan.hpp>
#include <distdl/app/sweep/tournament.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/shortage.hpp>
#include <distdl/checkpoint/format/layout.hpp>
#include <distdl/observe/record_lines.hpp>
#include <distdl/observe/run/result.hpp>
#include <distdl/records/causes.hpp>

namespace distdl::app {
namespace {
constexpr std::int64_t kWhole = std::numeric_limits<std::int64_t>::max();  ///< a step after all others

/// A run that went on before its sweep noted decisions has a checkpoint of a later step.
bool has_got_to(const SweptRun& run, std::int64_t end_at) {
  if (run.state == SweptRun::State::failed || run.state == SweptRun::State::finished) return true;
  if (end_at == 0) return false;
  return run.state == SweptRun::State::paused ? run.steps >= end_at : run.saved > end_at;
}

/// Value that a run had when it reached this step; nothing: it has failed, or was not evaluated.
std::optional<double> value_after(const SweptRun& run, std::int64_t end_at) {
  if (run.state == SweptRun::State::failed) return std::nullopt;
  const auto then = run.value_at(end_at);
  return run.value && (run.steps <= end_at || !then) ? run.value : then;  // a program may stop a little later
}

/// True if the run was ended by train.end_at_step, rather than by train.stop_early_patience.
bool is_of_a_part(const observe::Result& result) {
  return result.cause_code == records::kStoppedEarly && result.cause.starts_with("train.end_at_step");
}

std::vector<std::size_t> left_of(const SweepRung& rung, const std::vector<SweptRun>& runs) {
  std::vector<std::size_t> left;
  for (const std::size_t run : rung.runs)
    if (!has_got_to(runs[run], rung.end_at)) left.push_back(run);
  return left;
}

/// The runs of the first rung that is not decided, and where they end.
SweepRung open_rung(const Sweep& sweep, std::vector<std::size_t> runs, const std::vector<HalvingRung>& rungs) {
  const std::size_t one_in = static_cast<std::size_t>(sweep.keep_one_in), all = runs.size();
  SweepRung rung{std::move(runs), sweep.first_steps, {}, 1};
  for (std::size_t i = 0; i < rungs.size() && rungs[i].going_on && rung.runs.size() >= one_in; ++i) {
    for (const std::size_t run : *rungs[i].going_on)
      require<StorageError>(run < all, "rung-{:04}.json in \"{}\" names a run that the sweep lacks", rung.number,
                            sweep.folder);
    rung.runs = *rungs[i].going_on;
    rung.end_at = rung.end_at > kWhole / sweep.keep_one_in ? kWhole : rung.end_at * sweep.keep_one_in;
    ++rung.number;
  }
  if (rung.runs.size() < one_in || rung.end_at == kWhole) rung.end_at = rung.number = 0;
  return rung;
}

/// The noted rung of this number, decided or open.
const HalvingRung* noted(const SweepDecisions& decisions, std::int64_t number) {
  const auto place = static_cast<std::size_t>(number - 1);
  return number > 0 && place < decisions.rungs.size() ? &decisions.rungs[place] : nullptr;
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
  for (const auto& [step, each] : values)
    if (is_better_value(metric, each, best)) best = each;
  return best;
}

namespace {
std::int64_t newest_checkpoint(const std::filesystem::path& folder) try {
  const auto folders = checkpoint::step_folders(folder / "checkpoints");
  return folders.empty() ? -1 : folders.rbegin()->first.value;
} catch (const StorageError& error) {  // there is none yet
  pass_on_shortage(error);
  return -1;
}

void take_result(SweptRun& run, const observe::Result& result, train::Metric metric) {
  if (result.status == observe::ResultStatus::failed) {
    run.state = SweptRun::State::failed;
    run.failure = result.cause;
    run.code = result.code.value_or(0);
  }
  run.steps = result.steps;
  if (result.status != observe::ResultStatus::finished) return;
  run.state = is_of_a_part(result) ? SweptRun::State::paused : SweptRun::State::finished;
  run.value = metric == train::Metric::loss ? result.loss : result.accuracy;
  if (run.value) run.values[run.steps] = *run.value;
}
}  // namespace

SweptRun read_swept_run(const std::filesystem::path& folder, train::Metric metric) {
  SweptRun run;
  observe::for_each_record(folder / "metrics.jsonl", [&](const records::Row& row) {
    const auto step = step_of(row.record);
    if (!step) return;
    run.steps = step->value;
    run.state = SweptRun::State::unfinished;
    const auto* const evaluated = row.as<records::Evaluated>();
    if (!evaluated) return;
    const auto value = metric == train::Metric::loss ? evaluated->loss : evaluated->accuracy;
    if (value) run.values[step->value] = *value;
  });
  run.saved = newest_checkpoint(folder);
  try {
    take_result(run, observe::read_result(folder), metric);
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

SweepDecisions read_decisions(const Sweep& sweep) {
  SweepDecisions decisions;
  if (sweep.method == SweepMethod::tournament) decisions.rounds_held = rounds_held(sweep.folder);
  if (sweep.method == SweepMethod::halving) decisions.rungs = read_rungs(sweep.folder);
  return decisions;
}

SweepRung next_rung(const Sweep& sweep, const std::vector<SweptRun>& runs, const SweepDecisions& decisions) {
  SweepRung rung;
  rung.runs.resize(runs.size());
  std::iota(rung.runs.begin(), rung.runs.end(), std::size_t{0});
  if (sweep.method == SweepMethod::tournament) {
    if (decisions.rounds_held < sweep.rounds) rung.number = decisions.rounds_held + 1;
    rung.end_at = rung.number * sweep.first_steps;
  }
  if (sweep.method == SweepMethod::halving) rung = open_rung(sweep, std::move(rung.runs), decisions.rungs);
  rung.left = left_of(rung, runs);
  const auto* const known = sweep.method == SweepMethod::halving ? noted(decisions, rung.number) : nullptr;
  if (known) std::erase_if(rung.left, [&](std::size_t run) { return known->values.contains(run); });
  return rung;
}

HalvingRung decide_rung(const Sweep& sweep, const std::vector<SweptRun>& runs, const SweepRung& rung,
                        const SweepDecisions& decisions) {
  HalvingRung decided{rung.number, rung.end_at};
  if (const auto* const known = noted(decisions, rung.number)) decided.values = known->values;
  for (const std::size_t run : rung.runs) decided.values.try_emplace(run, value_after(runs[run], rung.end_at));
  auto best_first = rung.runs;  // equal ones by their numbers
  std::stable_sort(best_first.begin(), best_first.end(), [&](std::size_t a, std::size_t b) {
    return is_better_value(sweep.metric, decided.values[a], decided.values[b]);
  });
  best_first.resize(best_first.size() / static_cast<std::size_t>(sweep.keep_one_in));
  std::sort(best_first.begin(), best_first.end());
  decided.going_on = std::move(best_first);
  return decided;
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
