// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <distdl/app/runs/cluster_report.hpp>
#include <distdl/app/runs/resource_report.hpp>
#include <distdl/app/runs/share_report.hpp>
#include <distdl/app/watch/status_text.hpp>
#include <distdl/base/printable.hpp>

namespace distdl::app {
namespace {
constexpr std::size_t kMostLines = 5;  // of one kind

/// A text of lines, each with a name at the left.
struct NamedLines {
  int columns = 0;  ///< 0: lines are not broken
  std::string text = {};

  void add(const char* name, const std::string& value) {
    constexpr int kName = 12;
    if (!value.empty()) text += wrapped(fmt::format("{:<{}}{}", name, kName, printable(value)), columns, kName) + "\n";
  }
  /// The name stands before the first one.
  void add(const char* name, const std::vector<std::string>& lines) {
    for (const auto& line : lines) add(std::exchange(name, ""), line);
  }
};

std::string state_line(const RunReport& report) {
  std::string line = report.state.word;
  if (!report.state.explanation.empty()) line += ": " + report.state.explanation;
  if (report.state.word == "queued" && report.job && report.job->start)
    line += fmt::format("; expected to start at {}", time_text(*report.job->start));
  return line;
}

std::string counted(std::int64_t count, const char* one) {
  return fmt::format("{} {}{}", count, one, count == 1 ? "" : "s");
}

/// "17 (restart 1, on n1,n2), 4 ranks, ends in 58 min; 18, 19 wait".
std::string job_line(const RunReport& report, double now) {
  const auto& summary = report.summary;
  std::vector<std::string> parts, notes;
  if (summary.restart > 0) notes.push_back(fmt::format("restart {}", summary.restart));
  if (report.job && report.job->job == summary.job && !report.job->nodes.empty())
    notes.push_back("on " + report.job->nodes);
  if (!summary.job.empty())
    parts.push_back(notes.empty() ? summary.job : fmt::format("{} ({})", summary.job, fmt::join(notes, ", ")));
  else if (report.holder)
    parts.push_back(fmt::format("none: process {} on {}", report.holder->pid, report.holder->host));
  if (summary.ranks > 0) parts.push_back(counted(summary.ranks, "rank"));
  if (const auto end = end_of_job(report)) parts.push_back("ends in " + duration_text(*end - now));
  auto line = fmt::format("{}", fmt::join(parts, ", "));
  if (!summary.waiting.empty())
    line += fmt::format("{}{} wait{}", line.empty() ? "" : "; ", fmt::join(summary.waiting, ", "),
                        summary.waiting.size() == 1 ? "s" : "");
  return line;
}

std::string step_line(const RunView& view) {
  const auto& summary = view.report.summary;
  if (!summary.step) return "";
  auto line = fmt::format("{}", *summary.step);
  if (summary.total && *summary.step > *summary.total)
    return line + fmt::format(", from a checkpoint; the job ends at step {}", *summary.total);
  if (summary.total && summary.total->value > 0)
    line += fmt::format(" of {} ({:.0f}%)", *summary.total,
                        100.0 * static_cast<double>(summary.step->value) / static_cast<double>(summary.total->value));
  const auto estimate = estimate_text(view);
  return estimate.empty() ? line : line + ", " + estimate;
}

std::string checkpoint_line(const RunView& view) {
  const auto& summary = view.report.summary;
  std::vector<std::string> parts;
  const auto add = [&](const char* name, const std::optional<observe::SaveSummary>& save) {
    if (save) parts.push_back(fmt::format("{}step {}, {} ago", name, save->step, duration_text(view.now - save->time)));
  };
  add("", summary.checkpoint);
  add("snapshot at ", summary.snapshot);
  return fmt::format("{}", fmt::join(parts, "; "));
}

std::string evaluation_line(const std::optional<observe::EvaluationSummary>& evaluation, double now) {
  if (!evaluation) return "";
  std::string line = fmt::format("step {}, loss {:.4f}", evaluation->step, evaluation->loss);
  if (evaluation->accuracy) line += fmt::format(", accuracy {:.4f}", *evaluation->accuracy);
  if (evaluation->time > 0) line += fmt::format(", {} ago", duration_text(now - evaluation->time));
  return line;
}

/// The newest last.
std::vector<std::string> restart_lines(const std::vector<observe::RestartSummary>& restarts, std::size_t most) {
  std::vector<std::string> lines{restarts.empty() ? std::string() : fmt::format("{}", restarts.size())};
  for (std::size_t i = restarts.size() - std::min(most, restarts.size()); i < restarts.size(); ++i)
    lines.push_back(fmt::format("{}  {}; from step {}, {} steps again", time_text(restarts[i].time), restarts[i].cause,
                                restarts[i].resumed_from, restarts[i].repeated));
  return lines;
}

std::vector<std::string> health_lines(const RunReport& report, double now) {
  constexpr std::size_t kMostNodes = 8;
  const auto& rows = report.health;
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < std::min(rows.size(), kMostNodes); ++i)
    lines.push_back(health_text(report, rows[i], now));
  if (rows.size() > kMostNodes) lines.push_back(fmt::format("and {} more, see --json", rows.size() - kMostNodes));
  return lines;
}

std::string end_line(const RunReport& report, double now) {
  const auto end = end_of_job(report);
  if (!end) return "";
  const auto line = fmt::format("in {}, at {}", duration_text(*end - now), time_text(*end));
  return report.summary.deadline.empty() ? line : fmt::format("{}; {}", line, report.summary.deadline);
}

void add_details(NamedLines& text, const RunView& view) {
  const auto& report = view.report;
  const auto& summary = report.summary;
  text.add("product", summary.product);
  text.add("tasks", task_lines(summary.cluster));
  text.add("job ends", end_line(report, view.now));
  text.add("evaluation", evaluation_line(summary.evaluation, view.now));
  text.add("compute", compute_text(summary));
  text.add("memory", memory_text(summary));
  text.add("collectives", collectives_text(summary));
  text.add("energy", energy_text(report));
  text.add("levels", levels_text(summary.levels));
  text.add("shares", shares_text(summary.shares));
  text.add("ranges", ranges_text(summary.ranges));
  text.add("slowest", slowest_text(summary.shares, view.step_seconds));
  text.add("suspended", disturbed_text(summary.disturbed));
  text.add("nodes", health_lines(report, view.now));
}
}  // namespace

std::string status_text(const RunView& view, bool is_verbose, int columns) {
  const auto& report = view.report;
  const auto& summary = report.summary;
  NamedLines text{columns};
  text.add("run", report.id.empty() ? report.folder.string() : report.id + "  " + report.folder.string());
  text.add("state", state_line(report));
  if (report.state.word == "failed") text.add("cause", summary.failure);
  text.add("job", job_line(report, view.now));
  text.add("step", step_line(view));
  text.add("speed", speed_text(view));
  text.add("loss", loss_text(view));
  text.add("goodput", goodput_text(view.ledger));
  text.add("checkpoint", checkpoint_line(view));
  if (is_verbose) add_details(text, view);
  text.add("alert", summary.alerts);
  text.add("at risk", fmt::format("{}", fmt::join(summary.at_risk, ", ")));
  std::vector<std::string> bad_nodes;
  for (std::size_t i = 0; i < std::min(kMostLines, report.bad_nodes.size()); ++i) {
    const auto& bad = report.bad_nodes[i];
    bad_nodes.push_back(fmt::format("{}  {}; {}", time_text(bad.time), bad.node, bad.cause));
  }
  text.add("left out", bad_nodes);
  text.add("restarts", restart_lines(summary.restarts, is_verbose ? kMostLines : 1));
  return std::move(text.text);
}

std::string verdict_text(const RunView& view) {
  const auto& report = view.report;
  std::vector<std::string> parts{state_line(report)};
  const auto add = [&parts](const char* name, const std::string& value) {
    if (!value.empty()) parts.push_back(name + value);
  };
  if (report.state.word == "failed") add("", report.summary.failure);
  add("step ", step_line(view));
  add("loss ", loss_text(view));
  add("", speed_text(view));
  add("goodput ", goodput_text(view.ledger));
  if (const auto count = std::ssize(report.summary.restarts); count > 0) add("", counted(count, "restart"));
  return printable(fmt::format("{}", fmt::join(parts, "; ")));
}

nlohmann::ordered_json status_json(const RunView& view) {
  auto row = app::to_json(view.report);
  const auto& seconds = view.estimate.seconds;
  nlohmann::ordered_json estimate{{"seconds", nullptr}, {"end", nullptr}, {"reason", nullptr}};
  if (seconds) {
    estimate["seconds"] = *seconds;
    estimate["end"] = view.now + *seconds;
  } else {
    estimate["reason"] = view.estimate.reason;
  }
  row["samples_per_s"] = view.samples_per_s > 0 ? nlohmann::ordered_json(view.samples_per_s) : nullptr;
  row["estimate"] = std::move(estimate);
  return row;
}

std::string speed_text(const RunView& view) {
  std::vector<std::string> parts;
  if (view.samples_per_s > 0) parts.push_back(fmt::format("{:.0f} samples/s", view.samples_per_s));
  if (view.step_seconds > 0 && view.report.state.is_live)
    parts.push_back(short_time_text(view.step_seconds) + " per step");
  if (auto utilization = utilization_text(view.report.summary); !utilization.empty())
    parts.push_back(std::move(utilization));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string loss_text(const RunView& view) {
  const auto& summary = view.report.summary;
  std::vector<std::string> parts;
  if (summary.loss) parts.push_back(fmt::format("{:.4f}", *summary.loss));
  if (const auto& evaluation = summary.evaluation)
    parts.push_back(fmt::format("validation {:.4f}{} at step {}", evaluation->loss,
                                evaluation->accuracy ? fmt::format(", accuracy {:.4f}", *evaluation->accuracy) : "",
                                evaluation->step));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string goodput_text(const observe::Ledger& ledger) {
  constexpr double kLeast = 0.001, kLeastSeconds = 1;  // of the wall time; what is less is not told
  constexpr std::size_t kMost = 4;
  if (ledger.wall() <= 0) return "";
  std::vector<const observe::BucketEntry*> rest;
  for (const auto& entry : observe::kBuckets)
    if (entry.bucket != observe::Bucket::training &&
        ledger[entry.bucket] > std::max(kLeastSeconds, kLeast * ledger.wall()))
      rest.push_back(&entry);
  std::ranges::stable_sort(rest, std::greater<>(), [&](const auto* entry) { return ledger[entry->bucket]; });
  auto text = fmt::format("{:.1f}%", 100 * ledger.goodput());
  if (ledger[observe::Bucket::queued] > 0)
    text += fmt::format(", without the queue {:.1f}%", 100 * ledger.goodput_in_jobs());
  for (std::size_t i = 0; i < std::min(kMost, rest.size()); ++i)
    text += fmt::format("{}{} {}", i == 0 ? "; " : ", ", rest[i]->name, duration_text(ledger[rest[i]->bucket]));
  return text;
}

std::string estimate_text(const RunView& view) {
  constexpr double kDay = 86400;
  if (!view.estimate.seconds) return view.report.state.is_live ? "no estimate: " + view.estimate.reason : "";
  const double left = *view.estimate.seconds;
  constexpr std::size_t kDate = 10, kMinutes = 16;  // characters of "2026-03-01 12:00:00"
  const auto end = time_text(view.now + left);
  return fmt::format("{} left, done at {}", duration_text(left),
                     left < kDay ? end.substr(kDate + 1, kMinutes - kDate - 1) : end.substr(0, kMinutes));
}

}  // namespace distdl::app
