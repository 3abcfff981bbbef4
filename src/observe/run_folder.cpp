// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <utility>

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <unistd.h>

#include <distdl/base/clock.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/base/median.hpp>
#include <distdl/base/regular_file.hpp>
#include <distdl/checkpoint/io/file_operations.hpp>
#include <distdl/checkpoint/io/json_numbers.hpp>
#include <distdl/observe/record_lines.hpp>
#include <distdl/observe/run_folder.hpp>

namespace distdl::observe {
namespace {
using Json = nlohmann::ordered_json;

void write_whole(int descriptor, std::string_view text, const std::filesystem::path& file) {
  while (!text.empty()) {
    ssize_t n = ::write(descriptor, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    require<StorageError>(n > 0, "cannot write \"{}\": {}", file.string(), errno_text(errno));
    text.remove_prefix(static_cast<std::size_t>(n));
  }
}

/// Replaces a file durably in one step, so that no reader and no crash ever leaves a part of it.
void replace_file(const std::filesystem::path& file, std::string_view text) {
  auto temporary = file.parent_path() / ("." + file.filename().string() + ".new");
  ::unlink(temporary.c_str());  // what a crash left; if something else has the name, open says so
  FileDescriptor out(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644));
  require<StorageError>(static_cast<bool>(out), "cannot open \"{}\": {}", temporary.string(), errno_text(errno));
  write_whole(out.get(), text, temporary);
  const bool synced = ::fsync(out.get()) == 0;
  require<StorageError>(synced, "cannot write \"{}\": {}", temporary.string(), errno_text(errno));
  const bool renamed = ::rename(temporary.c_str(), file.c_str()) == 0;
  require<StorageError>(renamed, "cannot write \"{}\": {}", file.string(), errno_text(errno));
  FileDescriptor folder(::open(file.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const bool durable = folder && ::fsync(folder.get()) == 0;
  require<StorageError>(durable, "cannot make \"{}\" durable: {}", file.string(), errno_text(errno));
}

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

StorageError damaged(const std::string& file, const std::exception& why) {
  return StorageError(fmt::format("\"{}\" is damaged: {}; run the same job again", file, why.what()),
                      ExitCode::corrupt);
}

}  // namespace

/// For appending. Without a file where that is not possible: a run does without these records.
RunFolder::Lines RunFolder::open_lines(const std::filesystem::path& file) try {
  FileDescriptor descriptor = open_regular(file, O_RDWR | O_APPEND | O_CREAT);
  off_t size = ::lseek(descriptor.get(), 0, SEEK_END);
  char last = '\n';
  bool torn = size > 0 && ::pread(descriptor.get(), &last, 1, size - 1) == 1 && last != '\n';
  return {file, std::move(descriptor), torn};
} catch (const StorageError& error) {
  log(Severity::warning, "{}; the run continues without it", error.what());
  return {file, {}, false};
}

void RunFolder::append(Lines& lines, const std::string& row) try {
  if (!lines.descriptor) return;
  std::string text = (lines.torn ? "\n" : "") + row + "\n";
  lines.torn = true;
  write_whole(lines.descriptor.get(), text, lines.file);
  lines.torn = false;
} catch (const StorageError& error) {
  if (!std::exchange(warned_, true))
    log(Severity::warning, "{}; such lines are lost until there is free space", error.what());
}

RunFolder::RunFolder(std::filesystem::path folder, std::int64_t restart)
    : folder_(std::move(folder)), restart_(restart) {
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  require<StorageError>(!error, "cannot create run folder \"{}\": {}; choose a writable run.dir", folder_.string(),
                        error.message());
  checkpoint::check_replaceable(folder_ / "result.json");  // rather now than when all is done
  metrics_ = open_lines(folder_ / "metrics.jsonl");
  journal_ = open_lines(folder_ / "journal.jsonl");
}

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
  append(journal_, line_of(row));
  result_.ranks = event.world_size;
  result_.backend = event.backend;
}

void RunFolder::on(const train::StepDone& event) {
  Json row{{"step", event.step.value},
           {"epoch", event.epoch},
           {"loss", event.loss},
           {"accuracy", event.accuracy},
           {"learning_rate", event.learning_rate},
           {"samples_per_s", event.samples_per_s},
           {"waited_seconds", event.waited_seconds}};
  if (event.gradient_norm) row["gradient_norm"] = *event.gradient_norm;
  if (event.loss_scale) row["loss_scale"] = *event.loss_scale;
  if (event.skipped) row["skipped"] = true;
  append(metrics_, line_of(row));
}

void RunFolder::on(const train::Evaluated& event) {
  Json row{{"step", event.step.value},
           {"epoch", event.epoch},
           {"validation_loss", event.loss},
           {"validation_accuracy", event.accuracy}};
  append(metrics_, line_of(row));
}

void RunFolder::on(const train::CheckpointSaved& event) {
  Json row{{"event", "checkpoint"}, {"time", seconds_since_1970()}, {"step", event.step.value},
           {"bytes", event.bytes},  {"seconds", event.seconds},     {"stall_seconds", event.stall_seconds}};
  append(journal_, line_of(row));
}

void RunFolder::on(const train::SnapshotKept& event) {
  Json row{{"event", "snapshot"},
           {"time", seconds_since_1970()},
           {"step", event.step.value},
           {"seconds", event.seconds},
           {"stall_seconds", event.stall_seconds}};
  append(journal_, line_of(row));
}

void RunFolder::on(const train::SnapshotFailed& event) {
  Json row{{"event", "snapshot_failed"},
           {"time", seconds_since_1970()},
           {"step", event.step.value},
           {"reason", event.reason}};
  append(journal_, line_of(row));
}

void RunFolder::on(const train::SaveSkipped& event) {
  Json row{{"event", "save_skipped"}, {"time", seconds_since_1970()}, {"step", event.step.value}};
  append(journal_, line_of(row));
}

void RunFolder::on(const train::SaveFailed& event) {
  Json row{
      {"event", "save_failed"}, {"time", seconds_since_1970()}, {"step", event.step.value}, {"reason", event.reason}};
  append(journal_, line_of(row));
}

void RunFolder::on(const train::Stopped& event) {
  Json row{{"event", "stopped"}, {"time", seconds_since_1970()}, {"step", event.step.value}, {"reason", event.reason}};
  append(journal_, line_of(row));
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
  replace_file(folder_ / "result.json", to_text(result_));
  Json done{{"event", "finished"}, {"time", seconds_since_1970()}, {"step", event.step.value}};
  append(journal_, line_of(done));
}

checkpoint::FailureRecord read_failures(const std::filesystem::path& run_folder) {
  checkpoint::FailureRecord record;
  double last = 0;
  bool running = false;
  for_each_record(run_folder / "journal.jsonl", [&](const Record& row) {
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
  result.steps = checkpoint::whole_in<std::int64_t>(row, "steps");
  result.loss = optional_number(row, "loss");
  result.accuracy = optional_number(row, "accuracy");
  result.samples_per_s = optional_number(row, "samples_per_s").value_or(0);
  result.interruptions = checkpoint::whole_in<std::int64_t>(row, "interruptions");
  result.steps_repeated = checkpoint::whole_in<std::int64_t>(row, "steps_repeated");
  result.ranks = checkpoint::whole_in<int>(row, "ranks");
  result.failed_saves = checkpoint::whole_in<std::int64_t>(row, "failed_saves");
  result.skipped_saves = checkpoint::whole_in<std::int64_t>(row, "skipped_saves");
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
