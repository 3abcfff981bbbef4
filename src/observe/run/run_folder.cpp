// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <chrono>
#include <exception>
#include <string>
#include <utility>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <distdl/base/clock.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/base/process.hpp>
#include <distdl/base/shortage.hpp>
#include <distdl/files/file_operations.hpp>
#include <distdl/observe/health/bad_nodes.hpp>
#include <distdl/observe/journal.hpp>
#include <distdl/observe/kept_job.hpp>
#include <distdl/observe/record_lines.hpp>
#include <distdl/observe/records.hpp>
#include <distdl/observe/run/run_folder.hpp>
#include <distdl/observe/run/run_identity.hpp>
#include <distdl/observe/step_row.hpp>
#include <distdl/records/causes.hpp>
#include <distdl/train/stop/end_of_job.hpp>

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

/// Throws StorageError.
const std::filesystem::path& made(const std::filesystem::path& folder) {
  try {
    make_folders(real_file_system(), folder);
  } catch (const FileError& error) {
    throw StorageError(fmt::format("{}; choose a writable run.dir", error.what()));
  }
  check_replaceable(folder / "result.json");  // rather now than when all is done
  return folder;
}
}  // namespace

RunFolder::RunFolder(const std::filesystem::path& folder, std::int64_t restart, const Options& options)
    : folder_(resolved(folder)),
      restart_(restart),
      most_bytes_(most_bytes(options)),
      metrics_(made(folder_) / "metrics.jsonl", most_bytes_, TornLine::remove),
      journal_(folder_ / "journal.jsonl", TornLine::remove) {
  if (options.tensorboard) tensorboard_.emplace(folder_, options);
  if (options.openmetrics.empty() && options.openmetrics_listen.empty()) return;
  const auto identity = find_identity(folder_);
  open_metrics_.emplace(options, identity ? identity->id : folder_.string());
}

Json RunFolder::row_of(const char* event) const {
  Json row = Json::object();
  if (*event) row["event"] = event;
  row["time"] = seconds_since_1970();
  if (start_ > 0) row["start"] = start_;
  return row;
}

RunFolder::~RunFolder() {
  try {
    write_steps();
  } catch (const std::exception& error) {
    log(Severity::warning, "the rows of the last steps are lost: {}", error.what());
  }
}

void RunFolder::show(const char* kind, const Json& row) {
  if (!open_metrics_ && !tensorboard_) return;
  const RecordKind& found = *find_kind(kind);
  if (open_metrics_) open_metrics_->take(found, row);
  if (tensorboard_) tensorboard_->take(found, row);
}

void RunFolder::append_journal(const Json& row) {
  write_steps();
  const auto& event = row["event"].get_ref<const std::string&>();
  if (!is_one_too_many(event)) journal_.append(line_of(row));
  show(event.c_str(), row);
}

/// Other processes append to the journal, so that it cannot be replaced by a shorter one. One that is long gets those
/// of the frequent rows only now and then that count for nothing when the run goes on.
bool RunFolder::is_one_too_many(const std::string& event) {
  static constexpr std::array kFrequent{"progress", "snapshot", "snapshot_failed", "audited"};
  constexpr std::chrono::minutes kEvery{10};
  if (most_bytes_ == 0 || journal_.bytes() < most_bytes_) return false;
  if (std::find(kFrequent.begin(), kFrequent.end(), event) == kFrequent.end()) return false;
  auto& next = next_of_event_[event];
  if (Clock::now() < next) return true;
  next = Clock::now() + kEvery;
  return false;
}

void RunFolder::on(const train::RolesKnown& event) {
  const parallel::Cluster& cluster = event.cluster;
  Journal(folder_).append(ProductChosen{static_cast<int>(cluster.hosts.size()), "parameter_server",
                                        parallel::text_of(cluster), cluster.servers, cluster.workers, cluster.hosts});
}

void RunFolder::on(const train::Started& event) {
  // Only the last start counts: after several interruptions an earlier one may have advanced further.
  std::int64_t last_step = 0;
  bool was_evaluated = false;
  for_each_record(folder_ / "metrics.jsonl", [&](const Record& row) {
    last_step = row.step.value_or(last_step);
    if (event.resumed_from && row.step == event.resumed_from->value) was_evaluated = row.validation_loss.has_value();
  });
  bool unfinished = false;
  for_each_record(folder_ / "journal.jsonl", [&](const Record& row) {
    if (row.event == "started" || row.event == "stopped") unfinished = true;
    if (row.event == "finished") unfinished = false;
  });
  start_ = static_cast<std::int64_t>(event.start);
  step_ = event.resumed_from.value_or(Step(0));
  ranks_ = event.world_size;
  backend_ = event.backend;
  is_first_of_start_ = true;
  Json row = row_of("started");
  row["version"] = kRecordVersion;
  row["restart"] = restart_;
  row["ranks"] = event.world_size;
  row["backend"] = event.backend;
  if (!event.product.empty()) row["product"] = event.product;
  row["interrupted"] = unfinished;
  row["total_steps"] = event.total_steps.value;
  row["steps_repeated"] = std::max<std::int64_t>(0, last_step - step_.value);
  if (event.resumed_from) {
    row["resumed_from"] = step_.value;
    row["resumed_source"] = event.resumed_source;
  }
  if (event.has_mixed_backends) row["mixed_backends"] = true;
  const auto& [model_flops, hardware_flops, peak_flops] = event.compute;
  if (model_flops > 0) row["flops_per_sample"] = model_flops;
  if (hardware_flops > model_flops) row["hardware_flops_per_sample"] = hardware_flops;
  if (peak_flops > 0) row["peak_flops_per_s"] = peak_flops;
  drop_unfinished_result(folder_);
  if (tensorboard_) tensorboard_->begin({start_, Step(step_.value + 1), was_evaluated, kept_job(folder_).value_or("")});
  append_journal(row);
}

void RunFolder::on(const train::StepDone& event) {
  const bool is_end_of_round = !steps_.empty() && steps_.back().event.is_followed;
  step_ = event.step;
  steps_.push_back({event, seconds_since_1970(), std::exchange(is_first_of_start_, false)});
  if (event.is_followed) return;
  const auto now = Clock::now();
  if (is_end_of_round || now >= next_steps_) write_steps();
  if (now >= next_progress_) progress(event.step);
}

/// A row of its own for each step costs a short step more: what formats and writes it is in no cache after a step.
void RunFolder::write_steps() {
  if (steps_.empty()) return;
  constexpr std::chrono::milliseconds kEvery{250};
  next_steps_ = Clock::now() + kEvery;
  const auto steps = std::exchange(steps_, {});
  std::string rows;
  for (const auto& [event, time, is_first_of_start] : steps) {
    const auto row = step_row(event, time, start_, is_first_of_start);
    if (open_metrics_ || tensorboard_) show("step", Json::parse(row));
    if (!rows.empty()) rows += '\n';
    rows += row;
  }
  metrics_.append(rows);
}

/// Of a metrics.jsonl that is too long to be read as a whole, the ledger knows what these rows tell.
void RunFolder::progress(Step step) {
  constexpr std::chrono::minutes kEvery{1};
  next_progress_ = Clock::now() + kEvery;
  Json row = row_of("progress");
  row["step"] = step.value;
  row["memory_bytes"] = resident_bytes();
  append_journal(row);
}

void RunFolder::on(const train::ResourcesUsed& event) {
  Json row = row_of("resources");
  row["step"] = event.step.value;
  row["parameter_bytes"] = event.parameters;
  row["gradient_bytes"] = event.gradients;
  row["optimizer_bytes"] = event.optimizer;
  row["activation_bytes"] = event.activations;
  row["workspace_bytes"] = event.workspace;
  if (event.peak > 0) row["peak_bytes"] = event.peak;
  for (const char* key : {"collectives", "calls", "moved_bytes", "collective_seconds"}) row[key] = Json::array();
  for (const auto& [name, calls, bytes, seconds] : event.collectives) {
    row["collectives"].push_back(name);
    row["calls"].push_back(calls);
    row["moved_bytes"].push_back(bytes);
    row["collective_seconds"].push_back(seconds);
  }
  append_journal(row);
}

void RunFolder::on(const train::CompressionChosen& event) {
  Json row = row_of("compression");
  row["step"] = event.step.value;
  row["compression"] = event.compression;
  row["reason"] = event.reason;
  append_journal(row);
}

void RunFolder::on(const train::SharesKnown& event) {
  Json row = row_of("shares");
  row["step"] = event.step.value;
  row["moved"] = event.moved;
  row["shares"] = event.shares;
  row["microbatch_seconds"] = event.microbatch_seconds;
  row["hosts"] = event.hosts;
  row["microbatch_size"] = event.microbatch_size;
  row["recomputes"] = event.recomputes;
  if (!event.went_back.empty()) row["went_back"] = event.went_back;
  append_journal(row);
}

void RunFolder::on(const train::RangesKnown& event) {
  Json row = row_of("ranges");
  row["step"] = event.step.value;
  row["moved"] = event.moved;
  row["elements"] = event.elements;
  row["element_seconds"] = event.element_seconds;
  row["hosts"] = event.hosts;
  if (!event.went_back.empty()) row["went_back"] = event.went_back;
  append_journal(row);
}

void RunFolder::on(const train::RanksDisturbed& event) {
  Json row = row_of("disturbed");
  row["step"] = event.step.value;
  row["measurements"] = event.measurements;
  row["hosts"] = event.hosts;
  append_journal(row);
}

void RunFolder::on(const train::Evaluated& event) {
  Json row = row_of("");
  row["step"] = event.step.value;
  row["epoch"] = event.epoch;
  row["validation_loss"] = event.loss;
  row["validation_accuracy"] = event.accuracy;
  if (event.best) row["best_step"] = event.best->value;
  if (std::exchange(is_first_of_start_, false)) row["version"] = kRecordVersion;
  write_steps();
  metrics_.append(line_of(row));
  show("evaluation", row);
}

void RunFolder::on(const train::SaveBegins&) {
  write_steps();
}

void RunFolder::on(const train::CheckpointSaved& event) {
  Json row = row_of("checkpoint");
  row["step"] = event.step.value;
  row["bytes"] = event.bytes;
  row["seconds"] = event.seconds;
  row["stall_seconds"] = event.stall_seconds;
  if (!event.levels.empty()) row["levels"] = event.levels;
  append_journal(row);
}

void RunFolder::on(const train::SnapshotKept& event) {
  Json row = row_of("snapshot");
  row["step"] = event.step.value;
  row["seconds"] = event.seconds;
  row["stall_seconds"] = event.stall_seconds;
  if (!event.levels.empty()) row["levels"] = event.levels;
  append_journal(row);
}

void RunFolder::on(const train::SnapshotFailed& event) {
  Json row = row_of("snapshot_failed");
  row["step"] = event.step.value;
  row["reason"] = event.reason;
  append_journal(row);
}

void RunFolder::on(const train::SaveSkipped& event) {
  Json row = row_of("save_skipped");
  row["step"] = event.step.value;
  append_journal(row);
}

void RunFolder::on(const train::SaveFailed& event) {
  Json row = row_of("save_failed");
  row["step"] = event.step.value;
  row["reason"] = event.reason;
  append_journal(row);
}

void RunFolder::on(const train::Audited& event) {
  Json row = row_of("audited");
  row["step"] = event.step.value;
  row["seconds"] = event.seconds;
  append_journal(row);
}

void RunFolder::on(const train::Corrupted& event) {
  Json row = row_of("corrupted");
  row["step"] = event.step.value;
  row["audited"] = event.audited ? Json(event.audited->value) : Json(nullptr);
  row["nodes"] = fmt::format("{}", fmt::join(event.hosts, ","));
  row["wrong_ranks"] = event.ranks;
  row["certain"] = event.is_certain;
  row["reason"] = event.reason;
  row["set_aside"] = Json::array();
  for (Step step : event.set_aside) row["set_aside"].push_back(step.value);
  append_journal(row);
  // Later starts leave the node out, but not where it may be another one that is wrong.
  if (event.is_certain)
    for (const auto& host : event.hosts) note_corrupt_node(folder_, host, event.reason);
}

void RunFolder::on(const train::DeadlineKnown& event) {
  Json row = row_of("deadline");
  row["end"] = as_json(event.end);
  row["last_safe"] = as_json(event.last_safe);
  row["needed_seconds"] = event.needed;
  row["margin_seconds"] = event.margin;
  row["step_seconds"] = event.times.step;
  row["evaluation_seconds"] = event.times.evaluation;
  row["save_seconds"] = event.times.save;
  row["snapshot_seconds"] = event.times.snapshot;
  row["reason"] = train::explain(event);
  if (event.warning) row["warning"] = *event.warning;
  if (!event.preemption.empty()) row["preemption"] = event.preemption;
  if (event.grace_seconds) row["grace_seconds"] = *event.grace_seconds;
  if (event.grace_is_enough) row["grace_is_enough"] = *event.grace_is_enough;
  append_journal(row);
}

Result RunFolder::result(Step step) {
  write_steps();
  Result result = collect_result(folder_);
  result.steps = step.value;
  result.ranks = ranks_;
  result.backend = backend_;
  result.start = start_;
  return result;
}

/// The run ends without a result.json rather than with an error: what counts is saved.
void RunFolder::on(const train::Stopped& event) {
  Json row = row_of("stopped");
  row["step"] = event.step.value;
  row["reason"] = event.reason;
  row["cause_code"] = records::cause_of_stop(event.reason);
  append_journal(row);
  if (open_metrics_) open_metrics_->write();
  Result stopped = result(event.step);
  stopped.status = ResultStatus::stopped;
  stopped.cause = event.reason;
  stopped.cause_code = records::cause_of_stop(event.reason);
  try {
    write_result(folder_, stopped);
  } catch (const StorageError& error) {
    log(Severity::warning, "{}; the stopped run has no result.json", error.what());
  }
}

void RunFolder::on(const train::Finished& event) {
  Result finished = result(event.step);
  finished.loss = event.loss;
  finished.accuracy = event.accuracy;
  finished.cause = event.early;
  if (!event.early.empty()) finished.cause_code = records::kStoppedEarly;
  write_result(folder_, finished);
  Json row = row_of("finished");
  row["step"] = event.step.value;
  if (!event.early.empty()) {
    row["reason"] = event.early;
    row["cause_code"] = records::kStoppedEarly;
  }
  append_journal(row);
  if (open_metrics_) open_metrics_->write();
  if (tensorboard_) tensorboard_->finish(event.step);
}

void RunFolder::failed(const std::exception& error) {
  const ExitCode code = exit_code_of(error);
  // As agents see it: a job that has trained is not wrong from the outset.
  const bool has_diverged = code == ExitCode::config && step_ > Step(0) && !is_shortage(error);
  Json row = row_of("error");
  row["step"] = step_.value;
  row["code"] = static_cast<int>(code);
  row["cause"] = message_of(error);
  row["cause_code"] = has_diverged ? "diverged" : records::cause_of_exit(static_cast<int>(code));
  append_journal(row);
  if (open_metrics_) open_metrics_->write();
}

}  // namespace distdl::observe
