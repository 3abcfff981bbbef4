// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <exception>
#include <string>
#include <utility>

#include <distdl/base/clock.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/base/process.hpp>
#include <distdl/base/shortage.hpp>
#include <distdl/files/file_operations.hpp>
#include <distdl/observe/health/bad_nodes.hpp>
#include <distdl/observe/kept_job.hpp>
#include <distdl/observe/record_lines.hpp>
#include <distdl/observe/run/run_folder.hpp>
#include <distdl/observe/run/run_identity.hpp>
#include <distdl/records/row_text.hpp>

namespace distdl::observe {
namespace {
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

records::Row RunFolder::row_of(records::Record record) const {
  return {std::move(record), seconds_since_1970(), start_};
}

RunFolder::~RunFolder() {
  try {
    write_steps();
  } catch (const std::exception& error) {
    log(Severity::warning, "the rows of the last steps are lost: {}", error.what());
  }
}

void RunFolder::show(const records::Row& row) {
  if (open_metrics_) open_metrics_->take(row);
  if (tensorboard_) tensorboard_->take(row);
}

void RunFolder::append_journal(records::Record record) {
  write_steps();
  records::Row row = row_of(std::move(record));
  row.has_version = row.is<records::Started>();
  if (!is_one_too_many(row.record)) journal_.append(text_of(row));
  show(row);
}

/// Other processes append to the journal, so that it cannot be replaced by a shorter one. One that is long gets those
/// of the frequent rows only now and then that count for nothing when the run goes on.
bool RunFolder::is_one_too_many(const records::Record& record) {
  constexpr std::chrono::minutes kEvery{10};
  if (most_bytes_ == 0 || journal_.bytes() < most_bytes_) return false;
  const records::Kind& kind = kind_of(record);
  if (!kind.traits.is_frequent) return false;
  auto& next = next_of_kind_[kind.name];
  if (Clock::now() < next) return true;
  next = Clock::now() + kEvery;
  return false;
}

void RunFolder::on(const records::Record& record) {
  std::visit([this](const auto& each) { take(each); }, record);
}

/// Before the ranks restore there is no start to show.
void RunFolder::take(const records::ProductChosen& chosen) {
  journal_.append(text_of(row_of(chosen)));
}

void RunFolder::take(records::Started started) {
  // Only the last start counts: after several interruptions an earlier one may have advanced further.
  std::int64_t last_step = 0;
  bool was_evaluated = false;
  for_each_record(folder_ / "metrics.jsonl", [&](const records::Row& row) {
    const auto step = step_of(row.record);
    if (step) last_step = step->value;
    const auto* const evaluated = row.as<records::Evaluated>();
    if (step && step == started.resumed_from) was_evaluated = evaluated && evaluated->loss;
  });
  for_each_record(folder_ / "journal.jsonl", [&](const records::Row& row) {
    if (row.is<records::Started, records::Stopped>()) started.interrupted = true;
    if (row.is<records::Finished>()) started.interrupted = false;
  });
  start_ = static_cast<std::int64_t>(started.start);
  step_ = started.resumed_from.value_or(Step(0));
  ranks_ = started.world_size;
  backend_ = started.backend;
  is_first_of_start_ = true;
  started.restart = restart_;
  started.steps_repeated = std::max<std::int64_t>(0, last_step - step_.value);
  drop_unfinished_result(folder_);
  if (tensorboard_) tensorboard_->begin({start_, Step(step_.value + 1), was_evaluated, kept_job(folder_).value_or("")});
  append_journal(std::move(started));
}

void RunFolder::take(const records::StepDone& done) {
  const auto is_followed = [](const records::Row& row) { return row.as<records::StepDone>()->is_followed; };
  const bool is_end_of_round = !steps_.empty() && is_followed(steps_.back());
  step_ = done.step;
  steps_.push_back(row_of(done));
  steps_.back().has_version = std::exchange(is_first_of_start_, false);
  if (done.is_followed) return;
  const auto now = Clock::now();
  if (is_end_of_round || now >= next_steps_) write_steps();
  if (now >= next_progress_) progress(done.step);
}

/// A row of its own for each step costs a short step more: what formats and writes it is in no cache after a step.
void RunFolder::write_steps() {
  if (steps_.empty()) return;
  constexpr std::chrono::milliseconds kEvery{250};
  next_steps_ = Clock::now() + kEvery;
  std::string rows;
  for (const records::Row& step : std::exchange(steps_, {})) {
    show(step);
    if (!rows.empty()) rows += '\n';
    rows += text_of(step);
  }
  metrics_.append(rows);
}

void RunFolder::progress(Step step) {
  constexpr std::chrono::minutes kEvery{1};
  next_progress_ = Clock::now() + kEvery;
  append_journal(records::StillTraining{step, resident_bytes()});
}

void RunFolder::take(const records::Evaluated& evaluated) {
  records::Row row = row_of(evaluated);
  row.has_version = std::exchange(is_first_of_start_, false);
  write_steps();
  metrics_.append(text_of(row));
  show(row);
}

/// Later starts leave the node out, but not where it may be another one that is wrong.
void RunFolder::take(const records::Corrupted& corrupted) {
  append_journal(corrupted);
  if (corrupted.is_certain)
    for (const auto& host : corrupted.hosts) note_corrupt_node(folder_, host, corrupted.reason);
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
void RunFolder::take(const records::Stopped& stopped) {
  append_journal(stopped);
  if (open_metrics_) open_metrics_->write();
  Result end = result(stopped.step.value_or(step_));
  end.status = ResultStatus::stopped;
  end.cause = stopped.reason;
  end.cause_code = records::cause_of_stop(stopped.reason);
  try {
    write_result(folder_, end);
  } catch (const StorageError& error) {
    log(Severity::warning, "{}; the stopped run has no result.json", error.what());
  }
}

void RunFolder::take(const records::Finished& finished) {
  const Step step = finished.step.value_or(step_);
  Result end = result(step);
  end.loss = finished.loss;
  end.accuracy = finished.accuracy;
  end.cause = finished.early;
  if (!finished.early.empty()) end.cause_code = records::kStoppedEarly;
  write_result(folder_, end);
  append_journal(finished);
  if (open_metrics_) open_metrics_->write();
  if (tensorboard_) tensorboard_->finish(step);
}

void RunFolder::failed(const std::exception& error) {
  const ExitCode code = exit_code_of(error);
  // As agents see it: a job that has trained is not wrong from the outset.
  const bool has_diverged = code == ExitCode::config && step_ > Step(0) && !is_shortage(error);
  append_journal(records::RankFailed{step_, static_cast<int>(code), message_of(error), has_diverged ? "diverged" : ""});
  if (open_metrics_) open_metrics_->write();
}

}  // namespace distdl::observe
