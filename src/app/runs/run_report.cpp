// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include <fmt/chrono.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <distdl/app/runs/cluster_report.hpp>
#include <distdl/app/runs/resource_report.hpp>
#include <distdl/app/runs/run_report.hpp>
#include <distdl/app/runs/share_report.hpp>
#include <distdl/base/clock.hpp>
#include <distdl/base/local_time.hpp>
#include <distdl/base/printable.hpp>
#include <distdl/observe/run/run_identity.hpp>

namespace distdl::app {
namespace {
using ReportJson = nlohmann::ordered_json;

std::string gpus_text(const health::GpuHealth& gpus) {
  std::string text = fmt::format("{} GPU{}", gpus.gpus, gpus.gpus == 1 ? "" : "s");
  if (gpus.hottest) text += fmt::format(" up to {:.0f} degrees", *gpus.hottest);
  if (gpus.throttled > 0) text += fmt::format(", {} throttled", gpus.throttled);
  return text;
}

ReportJson nodes_json(const std::vector<observe::HealthRow>& rows) {
  auto nodes = ReportJson::array();
  for (const auto& row : rows) nodes.push_back(ReportJson::parse(observe::to_text(row)));
  return nodes;
}

template <class Value>
ReportJson or_null(const std::optional<Value>& value) {
  return value ? ReportJson(*value) : ReportJson(nullptr);
}

ReportJson step_or_null(const std::optional<Step>& step) {
  return step ? ReportJson(step->value) : ReportJson(nullptr);
}

ReportJson save_json(const std::optional<observe::SaveSummary>& save) {
  if (!save) return nullptr;
  return {{"step", save->step.value}, {"time", save->time}, {"seconds", save->seconds}};
}

ReportJson levels_json(const std::vector<observe::LevelSummary>& levels) {
  auto rows = ReportJson::array();
  for (const auto& [level, step, time] : levels)
    rows.push_back({{"level", level}, {"step", step.value}, {"time", time}});
  return rows;
}

ReportJson evaluation_json(const std::optional<observe::EvaluationSummary>& evaluation) {
  if (!evaluation) return nullptr;
  return {{"step", evaluation->step.value},
          {"time", evaluation->time},
          {"loss", evaluation->loss},
          {"accuracy", or_null(evaluation->accuracy)}};
}

ReportJson jobs_json(const RunReport& report) {
  auto rows = ReportJson::array();
  for (const std::string& id : report.summary.jobs) {
    const auto known =
        std::find_if(report.jobs.begin(), report.jobs.end(), [&](const JobState& each) { return each.job == id; });
    ReportJson row{{"job", id}, {"state", nullptr}, {"reason", nullptr}, {"nodes", nullptr}};
    if (known != report.jobs.end()) {
      row["state"] = known->state;
      if (!known->reason.empty()) row["reason"] = known->reason;
      if (!known->nodes.empty()) row["nodes"] = known->nodes;
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

struct CauseCost {
  std::string code;
  std::string last = {};  ///< in words
  int count = 0;
  double seconds = 0;
};

/// The dearest first.
std::vector<CauseCost> costs_of_causes(const observe::Ledger& ledger,
                                       const std::vector<observe::RestartSummary>& restarts) {
  std::vector<CauseCost> costs;
  for (const auto& restart : restarts) {
    const auto seconds = cost_of(restart, ledger);
    if (!seconds) continue;
    auto cost = std::ranges::find(costs, restart.cause_code, &CauseCost::code);
    if (cost == costs.end()) cost = costs.insert(cost, CauseCost{restart.cause_code});
    cost->last = restart.cause;
    ++cost->count;
    cost->seconds += *seconds;
  }
  std::ranges::stable_sort(costs, std::greater<>(), &CauseCost::seconds);
  return costs;
}
}  // namespace

RunReport make_report(const std::filesystem::path& folder, observe::RunSummary summary, std::vector<JobState> jobs) {
  RunReport report{folder};
  if (const auto identity = observe::find_identity(folder)) report.id = identity->id;
  const auto lock = look_at_lock(folder);
  report.job = current_job(summary, jobs);
  report.state = state_of(summary, lock ? std::optional(lock->age) : std::nullopt, report.job);
  if (lock && report.state.is_live) report.holder = lock->holder;
  report.bad_nodes = observe::read_bad_nodes(folder);
  report.health = observe::read_health(folder);
  report.summary = std::move(summary);
  report.jobs = std::move(jobs);
  return report;
}

std::optional<double> end_of_job(const RunReport& report) {
  if (!report.state.is_live) return std::nullopt;
  if (report.job && report.job->end && report.job->state != "PENDING") return report.job->end;
  return report.summary.job_end;
}

ReportJson to_json(const RunReport& report) {
  const auto& summary = report.summary;
  auto restarts = ReportJson::array();
  for (const auto& restart : summary.restarts)
    restarts.push_back({{"time", restart.time},
                        {"cause", restart.cause},
                        {"cause_code", restart.cause_code},
                        {"start", or_null(restart.start)},
                        {"kind", restart.kind.empty() ? ReportJson(nullptr) : ReportJson(restart.kind)},
                        {"node", restart.node.empty() ? ReportJson(nullptr) : ReportJson(restart.node)},
                        {"rank", or_null(restart.rank)},
                        {"found", restart.found > 0 ? ReportJson(restart.found) : ReportJson(nullptr)},
                        {"resumed_from", restart.resumed_from.value},
                        {"steps_repeated", restart.repeated}});
  auto bad_nodes = ReportJson::array();
  for (const auto& bad : report.bad_nodes)
    bad_nodes.push_back({{"node", bad.node}, {"time", bad.time}, {"cause", bad.cause}, {"job", bad.job}});
  ReportJson row{
      {"run", report.id},
      {"run_dir", report.folder.string()},
      {"state", report.state.word},
      {"explanation", report.state.explanation},
      {"live", report.state.is_live},
      {"job", report.job ? report.job->job : summary.job},
      {"restart", summary.restart},
      {"start", or_null(summary.start)},
      {"jobs", jobs_json(report)},
      {"ranks", summary.ranks},
      {"product", summary.product.empty() ? ReportJson(nullptr) : ReportJson(summary.product)},
      {"tasks", tasks_json(summary.cluster)},
      {"step", step_or_null(summary.step)},
      {"total_steps", step_or_null(summary.total)},
      {"steps_per_second", summary.steps_per_second},
      {"loss", or_null(summary.loss)},
      {"evaluation", evaluation_json(summary.evaluation)},
      {"checkpoint", save_json(summary.checkpoint)},
      {"snapshot", save_json(summary.snapshot)},
      {"levels", levels_json(summary.levels)},
      {"restarts", std::move(restarts)},
      {"bad_nodes", std::move(bad_nodes)},
      {"shares", shares_json(summary.shares)},
      {"ranges", ranges_json(summary.ranges)},
      {"slowest_rank", slowest_json(summary.shares)},
      {"suspended_ranks", disturbed_json(summary.disturbed)},
      {"nodes", nodes_json(report.health)},
      {"at_risk", summary.at_risk},
      {"alerts", summary.alerts},
      {"exit_code", or_null(summary.code)},
      {"failure", summary.failure.empty() ? ReportJson(nullptr) : ReportJson(summary.failure)},
      {"failure_code", summary.failure_code.empty() ? ReportJson(nullptr) : ReportJson(summary.failure_code)},
      {"end_of_job", or_null(end_of_job(report))},
      {"deadline", summary.deadline}};
  add_resources(row, report);
  return row;
}

std::string levels_text(const std::vector<observe::LevelSummary>& levels) {
  std::vector<std::string> parts;
  parts.reserve(levels.size());
  for (const auto& [level, step, time] : levels) parts.push_back(fmt::format("{} step {}", level, step));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string health_text(const RunReport& report, const observe::HealthRow& row, double now) {
  for (const auto& restart : report.summary.restarts)
    if (restart.cause_code == "node_lost" && restart.node == row.host && restart.time > row.time)
      return fmt::format("{} lost {} ago", row.host, duration_text(now - restart.time));
  const auto& health = row.health;
  std::vector<std::string> parts;
  if (health.load) parts.push_back(fmt::format("load {:.2f}", *health.load));
  if (health.free_memory) parts.push_back(fmt::format("{:.0f}% of memory free", 100 * *health.free_memory));
  for (const auto& [what, pressure] :
       {std::pair("processors", health.cpu_pressure), std::pair("memory", health.memory_pressure),
        std::pair("disks", health.io_pressure)})
    if (pressure && *pressure >= 0.01) parts.push_back(fmt::format("waits for {} {:.0f}%", what, 100 * *pressure));
  for (const auto& [what, count] :
       {std::pair("throttles", health.throttles), std::pair("corrected errors of memory", health.corrected_errors),
        std::pair("uncorrected errors of memory", health.uncorrected_errors)})
    if (count && *count > 0) parts.push_back(fmt::format("{} {}", *count, what));
  if (health.gpus) parts.push_back(gpus_text(*health.gpus));
  constexpr double kOld = 120;  // seconds
  const double age = now - row.time;
  if (age > kOld) parts.push_back("this was " + duration_text(age) + " ago");
  return fmt::format("{} {}", row.host, fmt::join(parts, ", "));
}

std::optional<double> cost_of(const observe::RestartSummary& restart, const observe::Ledger& ledger) {
  const auto found = std::ranges::find(ledger.interruptions, restart.time, &observe::Interruption::time);
  return found == ledger.interruptions.end() ? std::nullopt : std::optional(found->seconds);
}

std::string to_text(const observe::Ledger& ledger, const std::vector<observe::RestartSummary>& restarts) {
  std::string text;
  const double wall = ledger.wall();
  const auto add = [&](std::string_view name, double seconds, const std::string& more) {
    text += fmt::format("{:<13}{:>12.1f} s {:>6.2f}%{}\n", name, seconds, wall > 0 ? 100 * seconds / wall : 0, more);
  };
  for (const auto& entry : observe::kBuckets) add(entry.name, ledger[entry.bucket], fmt::format("  {}", entry.meaning));
  text += fmt::format("{:<13}{:>12.1f} s {:>6.2f}%\ngoodput      {:.2f}%, without the queue {:.2f}%\n", "wall time",
                      wall, 100.0, 100 * ledger.goodput(), 100 * ledger.goodput_in_jobs());
  const auto costs = costs_of_causes(ledger, restarts);
  if (!costs.empty()) text += "\nwhat interruptions cost, by cause, until training went on where it was\n";
  for (const auto& cost : costs)
    add(printable(cost.code), cost.seconds,
        printable(fmt::format("  {}{}{}", cost.count, cost.count == 1 ? " time: " : " times, the last: ", cost.last)));
  return text;
}

ReportJson to_json(const observe::Ledger& ledger, const std::vector<observe::RestartSummary>& restarts) {
  ReportJson seconds = ReportJson::object(), causes = ReportJson::array();
  for (const auto& entry : observe::kBuckets) seconds[std::string(entry.name)] = ledger[entry.bucket];
  for (const auto& cost : costs_of_causes(ledger, restarts))
    causes.push_back({{"cause_code", cost.code}, {"count", cost.count}, {"seconds", cost.seconds}});
  return {{"begin", ledger.begin},         {"end", ledger.end},           {"wall_seconds", ledger.wall()},
          {"seconds", std::move(seconds)}, {"goodput", ledger.goodput()}, {"goodput_in_jobs", ledger.goodput_in_jobs()},
          {"causes", std::move(causes)}};
}

std::string short_time_text(double seconds) {
  constexpr double kLeast = 5e-7;
  if (seconds < kLeast) return "0 s";
  if (seconds < 9.995e-4) return fmt::format("{:.3g} us", seconds * 1e6);
  return seconds < 0.9995 ? fmt::format("{:.3g} ms", seconds * 1e3) : fmt::format("{:.3g} s", seconds);
}

std::string duration_text(double seconds) {
  constexpr long kMinute = 60, kHour = 3600, kDay = 86400;
  const long whole = std::lround(std::clamp(seconds, 0.0, 1e10));
  if (whole < 2 * kMinute) return fmt::format("{} s", whole);
  if (whole < 2 * kHour) return fmt::format("{} min", whole / kMinute);
  if (whole < 2 * kDay) return fmt::format("{} h {} min", whole / kHour, whole % kHour / kMinute);
  return fmt::format("{} d {} h", whole / kDay, whole % kDay / kHour);
}

std::string time_text(double seconds_since_1970) {
  return fmt::format("{:%Y-%m-%d %H:%M:%S}", in_local_time(seconds_since_1970));
}

}  // namespace distdl::app
