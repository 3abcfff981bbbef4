// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <optional>
#include <tuple>
#include <utility>

#include <fmt/chrono.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <distdl/app/report/charts.hpp>
#include <distdl/app/report/report_data.hpp>
#include <distdl/app/runs/resource_report.hpp>
#include <distdl/app/watch/status_text.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/local_time.hpp>
#include <distdl/base/log.hpp>
#include <distdl/checkpoint/inspect.hpp>
#include <distdl/observe/kept_job.hpp>
#include <distdl/records/causes.hpp>
#include <distdl/slurm/nodes.hpp>
#include <distdl/submit/sbatch_options.hpp>
#include <distdl/version.hpp>

namespace distdl::app {
namespace {
using ReportJson = nlohmann::ordered_json;

std::string time_or_none(double time) {
  return time > 0 ? time_text(time) : std::string();
}

ReportJson buckets_data() {
  auto buckets = ReportJson::array();
  for (const auto& entry : observe::kBuckets) buckets.push_back({{"name", entry.name}, {"meaning", entry.meaning}});
  return buckets;
}

ReportJson causes_data() {
  auto causes = ReportJson::object();
  for (const auto& [code, meaning] : records::kCauses) causes[std::string(code)] = meaning;
  return causes;
}

ReportJson ranks_data(const RunView& view) {
  auto ranks = ReportJson::array();
  for (const auto& rank : view.ranks)
    ranks.push_back({{"rank", rank.rank},
                     {"host", rank.host},
                     {"compute", rank.compute},
                     {"data", rank.data},
                     {"sum", rank.sum},
                     {"save", rank.save},
                     {"other", rank.other}});
  return ranks;
}

/// All that is known of nodes: how fast they were, their state, and whether they are avoided.
ReportJson nodes_data(const RunView& view) {
  std::vector<std::pair<std::string, ReportJson>> nodes;
  const auto node = [&nodes](const std::string& host) -> ReportJson& {
    for (auto& [name, data] : nodes)
      if (name == host) return data;
    return nodes.emplace_back(host, ReportJson{{"host", host}}).second;
  };
  for (const auto& pace : view.nodes) {
    ReportJson data{{"host", pace.host},
                    {"ranks", pace.ranks},
                    {"slowdown", pace.slowdown},
                    {"worst", pace.worst},
                    {"rows", pace.rows},
                    {"slowest", pace.slowest},
                    {"is_present", pace.is_present},
                    {"cost", pace.cost},
                    {"is_straggler", pace.is_straggler()}};
    nodes.emplace_back(pace.host, std::move(data));
  }
  for (const auto& row : view.report.health) node(row.host)["state"] = health_text(view.report, row, view.now);
  for (const auto& bad : view.report.bad_nodes)
    node(bad.node)["left_out"] = fmt::format("{}: {}", time_or_none(bad.time), bad.cause);
  auto list = ReportJson::array();
  for (auto& [host, data] : nodes) list.push_back(std::move(data));
  return list;
}

ReportJson saves_data(const RunView& view) {
  auto saves = ReportJson::array();
  for (const auto& save : view.saves)
    saves.push_back({{"kind", save.is_snapshot ? "snapshot" : "checkpoint"},
                     {"step", save.step},
                     {"at", time_or_none(save.time)},
                     {"bytes", save.bytes},
                     {"places", places_text(save)},
                     {"seconds", save.seconds},
                     {"stall_seconds", save.stall_seconds}});
  auto totals = ReportJson::array();
  for (const auto& [kind, total] : {std::pair("checkpoint", &view.checkpoints), std::pair("snapshot", &view.snapshots)})
    if (total->count > 0)
      totals.push_back({{"kind", kind},
                        {"count", total->count},
                        {"bytes", total->bytes},
                        {"seconds", total->seconds},
                        {"stall_seconds", total->stall_seconds}});
  return {{"newest", std::move(saves)},
          {"totals", std::move(totals)},
          {"failed", view.failed_saves},
          {"skipped", view.skipped_saves}};
}

const char* word_of(Colour tone) {
  switch (tone) {
    case Colour::red:
      return "fault";
    case Colour::yellow:
      return "warning";
    case Colour::green:
      return "good";
    default:
      return "";
  }
}

ReportJson timeline_data(const RunView& view) {
  auto timeline = ReportJson::array();
  for (const auto& entry : view.timeline)
    timeline.push_back(
        {{"time", entry.time}, {"at", time_or_none(entry.time)}, {"tone", word_of(entry.tone)}, {"text", entry.text}});
  return timeline;
}

/// With texts for people beside what `distdl status --json` has. The evaluations of a view are in its curves alone.
ReportJson status_data(const RunView& view) {
  auto status = to_json(view.report);
  for (const char* elsewhere : {"shares", "ranges", "nodes", "bad_nodes", "evaluation"}) status.erase(elsewhere);
  for (std::size_t i = 0; i < status["restarts"].size(); ++i) {
    auto& restart = status["restarts"][i];
    restart["at"] = time_or_none(restart["time"].get<double>());
    if (const auto cost = cost_of(view.report.summary.restarts[i], view.ledger)) restart["lost_seconds"] = *cost;
    if (restart["found"].is_number())
      restart["down_seconds"] = std::max(0.0, restart["time"].get<double>() - restart["found"].get<double>());
  }
  return status;
}

std::string count_text(std::int64_t count) {
  return count > 0 ? fmt::format("{}", count) : std::string();
}

/// Names and values; what is not known is left out.
ReportJson environment_data(const ReportedRun& run) {
  const auto& summary = run.view.report.summary;
  const auto saved = [&run](const char* key) {
    const auto found = run.saved.find(key);
    return found == run.saved.end() ? std::string() : found->second;
  };
  const auto version = summary.distdl.empty() ? std::string("not recorded: an older version") : summary.distdl;
  auto list = ReportJson::array();
  const std::vector<std::pair<const char*, std::string>> facts{
      {"distdl", version},
      {"computes with", summary.backend.empty() ? saved("backend") : summary.backend},
      {"processor", summary.processor},
      {"host of \"distdl run\"", summary.host},
      {"nodes", count_text(summary.nodes)},
      {"ranks", count_text(summary.ranks)},
      {"product of the ranks", summary.product},
      {"Slurm jobs", fmt::format("{}", fmt::join(summary.jobs, ", "))},
      {"nodes at risk", fmt::format("{}", fmt::join(summary.at_risk, ", "))},
      {"compute", compute_text(summary)},
      {"memory", memory_text(summary)},
      {"collectives", collectives_text(summary)},
      {"energy", energy_text(run.view.report)},
      {"run folder", run.view.report.folder.string()},
      {"samples of the data set", saved("data.samples")},
      {"digest of the data set", saved("data.digest")}};
  for (const auto& [name, value] : facts)
    if (!value.empty()) list.push_back({name, value});
  return list;
}

/// Commands that repeat the run, with the job file of the report in the present folder.
ReportJson reproduction_of(const ReportedRun& run) {
  const auto& summary = run.view.report.summary;
  const auto ranks = std::max<std::int64_t>(1, summary.ranks);
  const auto train = summary.jobs.empty() ? fmt::format("distdl run --local -n {} job.toml --set run.dir=again", ranks)
                                          : fmt::format("distdl submit job.toml --nodes={} --set run.dir=again",
                                                        std::max<std::int64_t>(1, summary.nodes));
  return {train, "distdl checkpoint digest again",
          "distdl checkpoint digest " + submit::quote(run.view.report.folder.string())};
}

ReportJson run_data(const ReportedRun& run) {
  ReportJson data{{"name", run.compared.name},
                  {"status", status_data(run.view)},
                  {"verdict", verdict_text(run.view)},
                  {"step_seconds", run.view.step_seconds},
                  {"samples_per_s", run.view.samples_per_s},
                  {"ledger", to_json(run.view.ledger, run.view.report.summary.restarts)},
                  {"ranks", ranks_data(run.view)},
                  {"nodes", nodes_data(run.view)},
                  {"saves", saves_data(run.view)},
                  {"timeline", timeline_data(run.view)},
                  {"environment", environment_data(run)},
                  {"job", run.job ? ReportJson(*run.job) : ReportJson(nullptr)},
                  {"reproduce", reproduction_of(run)}};
  return data;
}

/// The figure by which runs are ranked: their accuracy, or else their loss on samples they did not train on. Null: no
/// run has it.
ReportJson score_data(const std::vector<ComparedRun>& runs) {
  using Value = std::optional<double> observe::Result::*;
  for (const auto& [name, is_larger_better, value] :
       {std::tuple<const char*, bool, Value>{"accuracy", true, &observe::Result::accuracy},
        {"loss", false, &observe::Result::loss}}) {
    auto values = ReportJson::array();
    bool is_known = false;
    for (const auto& run : runs) {
      const auto& found = run.result.*value;
      is_known = is_known || found;
      values.push_back(found ? ReportJson(*found) : ReportJson(nullptr));
    }
    if (is_known) return {{"name", name}, {"is_larger_better", is_larger_better}, {"values", std::move(values)}};
  }
  return nullptr;
}

std::map<std::string, std::string> saved_state(const std::filesystem::path& run_folder) try {
  return checkpoint::open(run_folder / "checkpoints").state;
} catch (const StorageError& error) {
  if (error.exit_code() != ExitCode::incomplete) log(Severity::warning, "{}", error.what());
  return {};
}
}  // namespace

ReportedRun reported_run(const std::string& name, RunView view) {
  ReportedRun run;
  auto jobs = view.report.summary.jobs;
  std::erase_if(jobs, [](const std::string& job) { return !is_job_id(job); });  // whatever a journal says
  if (energy_text(view.report).empty()) view.report.accounted_energy = slurm::accounted_energy(jobs);
  run.compared = compared_run(name, view.report, view.ledger.wall());
  run.job = observe::kept_job(view.report.folder);
  run.saved = saved_state(view.report.folder);
  run.view = std::move(view);
  return run;
}

ReportJson report_data(const std::vector<ReportedRun>& runs, double now) {
  auto all = ReportJson::array(), results = ReportJson::array();
  std::vector<const RunView*> views;
  std::vector<ComparedRun> compared;
  for (const auto& run : runs) {
    all.push_back(run_data(run));
    views.push_back(&run.view);
    compared.push_back(run.compared);
  }
  for (const auto& row : result_rows(compared)) results.push_back({{"name", row.name}, {"texts", row.texts}});
  const auto zone = fmt::format("{:%z}", in_local_time(now));
  return {{"made", {{"at", time_text(now)}, {"zone", zone}, {"distdl", version()}}},
          {"buckets", buckets_data()},
          {"causes", causes_data()},
          {"runs", std::move(all)},
          {"results", std::move(results)},
          {"differences", to_json(compared)["job"]},
          {"score", score_data(compared)},
          {"charts", charts_of(views)}};
}

}  // namespace distdl::app
