// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <distdl/base/clock.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/json/numbers.hpp>
#include <distdl/base/median.hpp>
#include <distdl/base/process.hpp>
#include <distdl/checkpoint/io/file_operations.hpp>
#include <distdl/observe/bad_nodes.hpp>
#include <distdl/observe/record_lines.hpp>
#include <distdl/observe/run_folder.hpp>
#include <distdl/train/end_of_job.hpp>

namespace distdl::observe {
namespace {
using Json = nlohmann::ordered_json;

/// Text that is not UTF-8, as file names may be, must not end a run.
std::string line_of(const Json& row) {
  return row.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// null stands for none.
Json as_json(std::optional<double> value) {
  return value ? Json(*value) : Json(nullptr);
}

std::optional<double> optional_number(const nlohmann::json& row, const char* key) {
  const auto found = row.find(key);
  return found != row.end() && found->is_number() ? std::optional(found->get<double>()) : std::nullopt;
}

/// Of a row of the journal: written by rank 0 while it trains.
bool is_of_training(const std::string& event) {
  static constexpr std::array kEvents{"started",         "progress",     "shares",      "checkpoint", "snapshot",
                                      "snapshot_failed", "save_skipped", "save_failed", "audited",    "corrupted",
                                      "deadline",        "stopped",      "finished"};
  return std::find(kEvents.begin(), kEvents.end(), event) != kEvents.end();
}

StorageError damaged(const std::string& file, const std::exception& why) {
  return StorageError(fmt::format("\"{}\" is damaged: {}; run the same job again", file, why.what()),
                      ExitCode::corrupt);
}

/// Throws StorageError.
const std::filesystem::path& made(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  require<StorageError>(!error, "cannot create run folder \"{}\": {}; choose a writable run.dir", folder.string(),
                        error.message());
  checkpoint::check_replaceable(folder / "result.json");  // rather now than when all is done
  return folder;
}
}  // namespace

RunFolder::RunFolder(std::filesystem::path folder, std::int64_t restart)
    : folder_(std::move(folder)),
      restart_(restart),
      metrics_(made(folder_) / "metrics.jsonl"),
      journal_(folder_ / "journal.jsonl") {}

void RunFolder::on(const train::Started& event) {
  // Only the last start counts: after several interruptions an earlier one may have advanced further.
  std::int64_t last_step = 0;
  for_each_record(folder_ / "metrics.jsonl", [&](const Record& row) { last_step = row.step.value_or(last_step); });
  bool unfinished = false;
  for_each_record(folder_ / "journal.jsonl", [&](const Record& row) {
    if (row.event == "started" || row.event == "stopped") unfinished = true;
    if (row.event == "finished") unfinished = false;
  });
  std::int64_t resumed = event.resumed_from ? event.resumed_from->value : 0;
  Json row{{"event", "started"},
           {"time", seconds_since_1970()},
           {"restart", restart_},
           {"ranks", event.world_size},
           {"backend", event.backend},
           {"interrupted", unfinished},
           {"total_steps", event.total_steps.value},
           {"steps_repeated", std::max<std::int64_t>(0, last_step - resumed)}};
  if (event.resumed_from) {
    row["resumed_from"] = resumed;
    row["resumed_source"] = event.resumed_source;
  }
  if (event.has_mixed_backends) row["mixed_backends"] = true;
  journal_.append(line_of(row));
  result_.ranks = event.world_size;
  result_.backend = event.backend;
}

void RunFolder::on(const train::StepDone& event) {
  Json row{{"time", seconds_since_1970()},
           {"step", event.step.value},
           {"epoch", event.epoch},
           {"loss", event.loss},
           {"accuracy", event.accuracy},
           {"learning_rate", event.learning_rate},
           {"samples_per_s", event.samples_per_s},
           {"waited_seconds", event.waited_seconds}};
  if (event.gradient_norm) row["gradient_norm"] = *event.gradient_norm;
  if (event.loss_scale) row["loss_scale"] = *event.loss_scale;
  if (event.skipped) row["skipped"] = true;
  if (event.sum_seconds) row["sum_seconds"] = *event.sum_seconds;
  if (event.sum_waited_seconds) row["sum_waited_seconds"] = *event.sum_waited_seconds;
  if (event.pipeline_seconds) row["pipeline_seconds"] = *event.pipeline_seconds;
  if (event.pipeline_waited_seconds) row["pipeline_waited_seconds"] = *event.pipeline_waited_seconds;
  if (event.pipeline_busiest_seconds) row["pipeline_busiest_seconds"] = *event.pipeline_busiest_seconds;
  if (!event.compression.empty()) row["compression"] = event.compression;
  metrics_.append(line_of(row));
  if (Clock::now() >= next_progress_) progress(event.step);
}

/// Of a metrics.jsonl that is too long to be read as a whole, the ledger knows what these rows tell.
void RunFolder::progress(Step step) {
  constexpr std::chrono::minutes kEvery{1};
  next_progress_ = Clock::now() + kEvery;
  const Json row{
      {"event", "progress"}, {"time", seconds_since_1970()}, {"step", step.value}, {"memory_bytes", resident_bytes()}};
  journal_.append(line_of(row));
}

void RunFolder::on(const train::CompressionChosen& event) {
  const Json row{{"event", "compression"},
                 {"time", seconds_since_1970()},
                 {"step", event.step.value},
                 {"compression", event.compression},
                 {"reason", event.reason}};
  journal_.append(line_of(row));
}

void RunFolder::on(const train::SharesKnown& event) {
  const Json row{{"event", "shares"},
                 {"time", seconds_since_1970()},
                 {"step", event.step.value},
                 {"moved", event.moved},
                 {"shares", event.shares},
                 {"microbatch_seconds", event.microbatch_seconds},
                 {"hosts", event.hosts},
                 {"microbatch_size", event.microbatch_size},
                 {"recomputes", event.recomputes}};
  journal_.append(line_of(row));
}

void RunFolder::on(const train::Evaluated& event) {
  Json row{{"time", seconds_since_1970()},
           {"step", event.step.value},
           {"epoch", event.epoch},
           {"validation_loss", event.loss},
           {"validation_accuracy", event.accuracy}};
  metrics_.append(line_of(row));
}

void RunFolder::on(const train::CheckpointSaved& event) {
  Json row{{"event", "checkpoint"}, {"time", seconds_since_1970()}, {"step", event.step.value},
           {"bytes", event.bytes},  {"seconds", event.seconds},     {"stall_seconds", event.stall_seconds}};
  journal_.append(line_of(row));
}

void RunFolder::on(const train::SnapshotKept& event) {
  Json row{{"event", "snapshot"},
           {"time", seconds_since_1970()},
           {"step", event.step.value},
           {"seconds", event.seconds},
           {"stall_seconds", event.stall_seconds}};
  journal_.append(line_of(row));
}

void RunFolder::on(const train::SnapshotFailed& event) {
  Json row{{"event", "snapshot_failed"},
           {"time", seconds_since_1970()},
           {"step", event.step.value},
           {"reason", event.reason}};
  journal_.append(line_of(row));
}

void RunFolder::on(const train::SaveSkipped& event) {
  Json row{{"event", "save_skipped"}, {"time", seconds_since_1970()}, {"step", event.step.value}};
  journal_.append(line_of(row));
}

void RunFolder::on(const train::SaveFailed& event) {
  Json row{
      {"event", "save_failed"}, {"time", seconds_since_1970()}, {"step", event.step.value}, {"reason", event.reason}};
  journal_.append(line_of(row));
}

void RunFolder::on(const train::Audited& event) {
  Json row{
      {"event", "audited"}, {"time", seconds_since_1970()}, {"step", event.step.value}, {"seconds", event.seconds}};
  journal_.append(line_of(row));
}

void RunFolder::on(const train::Corrupted& event) {
  Json row{{"event", "corrupted"},
           {"time", seconds_since_1970()},
           {"step", event.step.value},
           {"audited", event.audited ? Json(event.audited->value) : Json(nullptr)},
           {"nodes", fmt::format("{}", fmt::join(event.hosts, ","))},
           {"wrong_ranks", event.ranks},
           {"certain", event.is_certain},
           {"reason", event.reason},
           {"set_aside", Json::array()}};
  for (Step step : event.set_aside) row["set_aside"].push_back(step.value);
  journal_.append(line_of(row));
  // Later starts leave the node out, but not where it may be another one that is wrong.
  if (event.is_certain)
    for (const auto& host : event.hosts) note_corrupt_node(folder_, host, event.reason);
}

void RunFolder::on(const train::DeadlineKnown& event) {
  Json row{{"event", "deadline"},
           {"time", seconds_since_1970()},
           {"end", as_json(event.end)},
           {"last_safe", as_json(event.last_safe)},
           {"needed_seconds", event.needed},
           {"margin_seconds", event.margin},
           {"step_seconds", event.times.step},
           {"evaluation_seconds", event.times.evaluation},
           {"save_seconds", event.times.save},
           {"snapshot_seconds", event.times.snapshot},
           {"reason", train::explain(event)}};
  if (event.warning) row["warning"] = *event.warning;
  if (!event.preemption.empty()) row["preemption"] = event.preemption;
  if (event.grace_seconds) row["grace_seconds"] = *event.grace_seconds;
  if (event.grace_is_enough) row["grace_is_enough"] = *event.grace_is_enough;
  journal_.append(line_of(row));
}

void RunFolder::on(const train::Stopped& event) {
  Json row{{"event", "stopped"}, {"time", seconds_since_1970()}, {"step", event.step.value}, {"reason", event.reason}};
  journal_.append(line_of(row));
}

void RunFolder::on(const train::Finished& event) {
  std::vector<double> speeds;
  for_each_record(folder_ / "metrics.jsonl", [&](const Record& row) {
    if (row.samples_per_s) speeds.push_back(*row.samples_per_s);
  });
  if (!speeds.empty()) result_.samples_per_s = median(std::move(speeds));
  result_.interruptions = result_.steps_repeated = result_.failed_saves = result_.skipped_saves = 0;
  for_each_record(folder_ / "journal.jsonl", [&](const Record& row) {
    if (row.interrupted) ++result_.interruptions;
    if (row.event == "save_failed") ++result_.failed_saves;
    if (row.event == "save_skipped") ++result_.skipped_saves;
    result_.steps_repeated += row.steps_repeated;
  });
  result_.steps = event.step.value;
  result_.loss = event.loss;
  result_.accuracy = event.accuracy;
  checkpoint::replace_text(checkpoint::real_file_system(), folder_ / "result.json", to_text(result_));
  Json done{{"event", "finished"}, {"time", seconds_since_1970()}, {"step", event.step.value}};
  journal_.append(line_of(done));
}

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
  // Another start may have had another job, or other nodes.
  const auto are_of_one_start = [&](double first, double second) {
    return std::ranges::none_of(starts,
                                [&](const Record& start) { return first < start.time && start.time <= second; });
  };
  // Such a loss depends on which rank computed what.
  const auto is_of_mixed_backends = [&](const Record& row) {
    const auto start =
        std::find_if(starts.rbegin(), starts.rend(), [&](const Record& s) { return s.time <= row.time; });
    return start != starts.rend() && start->has_mixed_backends;
  };
  const auto is_doubtful = [&](const Record& row) {
    return std::ranges::any_of(corruptions, [&](const Record& corruption) {
      return row.time <= corruption.time && *row.step > corruption.audited;
    });
  };
  std::optional<double> loss;
  std::optional<std::int64_t> before;
  double time_before = 0;
  for_each_record(run_folder / "metrics.jsonl", [&](const Record& row) {
    if (!row.step || !row.loss || is_doubtful(row)) return;
    if (*row.step == step.value) loss.reset();  // this state was made again
    if (*row.step == step.value + 1 && before == step.value && are_of_one_start(time_before, row.time) &&
        !is_of_mixed_backends(row))
      loss = row.loss;
    before = row.step;
    time_before = row.time;
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

std::string to_text(const Result& result) {
  const Json row{{"status", "finished"},
                 {"steps", result.steps},
                 {"loss", as_json(result.loss)},
                 {"accuracy", as_json(result.accuracy)},
                 {"samples_per_s", result.samples_per_s},
                 {"interruptions", result.interruptions},
                 {"steps_repeated", result.steps_repeated},
                 {"failed_saves", result.failed_saves},
                 {"skipped_saves", result.skipped_saves},
                 {"ranks", result.ranks},
                 {"backend", result.backend}};
  return row.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result result_from(const std::string& text, const std::string& name) try {
  const auto row = nlohmann::json::parse(text);
  Result result;
  result.steps = whole_in<std::int64_t>(row, "steps");
  result.loss = optional_number(row, "loss");
  result.accuracy = optional_number(row, "accuracy");
  result.samples_per_s = optional_number(row, "samples_per_s").value_or(0);
  result.interruptions = whole_in<std::int64_t>(row, "interruptions");
  result.steps_repeated = whole_in<std::int64_t>(row, "steps_repeated");
  result.ranks = whole_in<int>(row, "ranks");
  result.failed_saves = whole_in<std::int64_t>(row, "failed_saves");
  result.skipped_saves = whole_in<std::int64_t>(row, "skipped_saves");
  result.backend = row.value("backend", "");
  return result;
} catch (const nlohmann::json::exception& error) {
  throw damaged(name, error);
} catch (const StorageError& error) {
  throw damaged(name, error);
}

Result read_result(const std::filesystem::path& run_folder) {
  const auto file = run_folder / "result.json";
  const auto text = checkpoint::read_text(checkpoint::real_file_system(), file, kLongestLine);
  if (!text)
    throw StorageError(fmt::format("cannot open \"{}\"; the run has not finished", file.string()),
                       ExitCode::incomplete);
  return result_from(*text, file.string());
}

}  // namespace distdl::observe
