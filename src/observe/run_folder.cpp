// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <fstream>
#include <utility>

#include <fcntl.h>
#include <nlohmann/json.hpp>

#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
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

/// Puts the whole file in place at once, on the disk: nobody ever sees half of it, whatever goes off when.
void replace_file(const std::filesystem::path& file, std::string_view text) {
  auto temporary = file.parent_path() / ("." + file.filename().string() + ".new");
  FileDescriptor out(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  require<StorageError>(static_cast<bool>(out), "cannot open \"{}\": {}", temporary.string(), errno_text(errno));
  write_whole(out.get(), text, temporary);
  require<StorageError>(::fsync(out.get()) == 0, "cannot write \"{}\": {}", temporary.string(), errno_text(errno));
  require<StorageError>(::rename(temporary.c_str(), file.c_str()) == 0, "cannot write \"{}\": {}", file.string(),
                        errno_text(errno));
  FileDescriptor folder(::open(file.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  require<StorageError>(folder && ::fsync(folder.get()) == 0, "cannot make \"{}\" durable: {}", file.string(),
                        errno_text(errno));
}

/// Calls visit(object) for each whole line of a JSON-lines file.
template <class Visit>
void for_each_line(const std::filesystem::path& file, Visit&& visit) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    auto object = Json::parse(line, nullptr, false);
    if (object.is_object()) visit(object);
  }
}

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}
}  // namespace

/// For appending.
RunFolder::Lines RunFolder::open_lines(const std::filesystem::path& file) {
  FileDescriptor descriptor(::open(file.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0644));
  require<StorageError>(static_cast<bool>(descriptor), "cannot open \"{}\": {}; choose a writable run.dir",
                        file.string(), errno_text(errno));
  off_t size = ::lseek(descriptor.get(), 0, SEEK_END);
  char last = '\n';
  bool torn = size > 0 && ::pread(descriptor.get(), &last, 1, size - 1) == 1 && last != '\n';
  return {file, std::move(descriptor), torn};
}

void RunFolder::append(Lines& lines, const std::string& row) try {
  std::string text = (lines.torn ? "\n" : "") + row + "\n";
  lines.torn = true;
  write_whole(lines.descriptor.get(), text, lines.file);
  lines.torn = false;
} catch (const StorageError& error) {
  if (!std::exchange(warned_, true))
    log(Severity::warning, "{}; such lines are lost until there is room", error.what());
}

RunFolder::RunFolder(std::filesystem::path folder, std::int64_t restart)
    : folder_(std::move(folder)), restart_(restart) {
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  require<StorageError>(!error, "cannot create run folder \"{}\": {}; choose a writable run.dir", folder_.string(),
                        error.message());
  metrics_ = open_lines(folder_ / "metrics.jsonl");
  journal_ = open_lines(folder_ / "journal.jsonl");
}

void RunFolder::on(const train::Started& event) {
  // Of the last start alone: after several interruptions an earlier one may have come further.
  std::int64_t last_step = 0;
  for_each_line(folder_ / "metrics.jsonl", [&](const Json& row) { last_step = row.value("step", last_step); });
  bool unfinished = false;
  for_each_line(folder_ / "journal.jsonl", [&](const Json& row) {
    auto what = row.value("event", "");
    if (what == "started" || what == "stopped") unfinished = true;
    if (what == "finished") unfinished = false;
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
  append(journal_, row.dump());
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
  append(metrics_, row.dump());
}

void RunFolder::on(const train::Evaluated& event) {
  Json row{{"step", event.step.value},
           {"epoch", event.epoch},
           {"validation_loss", event.loss},
           {"validation_accuracy", event.accuracy}};
  append(metrics_, row.dump());
}

void RunFolder::on(const train::CheckpointSaved& event) {
  Json row{{"event", "checkpoint"}, {"time", seconds_since_1970()}, {"step", event.step.value},
           {"bytes", event.bytes},  {"seconds", event.seconds},     {"stall_seconds", event.stall_seconds}};
  append(journal_, row.dump());
}

void RunFolder::on(const train::SnapshotKept& event) {
  Json row{{"event", "snapshot"},
           {"time", seconds_since_1970()},
           {"step", event.step.value},
           {"seconds", event.seconds},
           {"stall_seconds", event.stall_seconds}};
  append(journal_, row.dump());
}

void RunFolder::on(const train::SnapshotFailed& event) {
  Json row{{"event", "snapshot_failed"},
           {"time", seconds_since_1970()},
           {"step", event.step.value},
           {"reason", event.reason}};
  append(journal_, row.dump());
}

void RunFolder::on(const train::SaveSkipped& event) {
  Json row{{"event", "save_skipped"}, {"time", seconds_since_1970()}, {"step", event.step.value}};
  append(journal_, row.dump());
}

void RunFolder::on(const train::SaveFailed& event) {
  Json row{
      {"event", "save_failed"}, {"time", seconds_since_1970()}, {"step", event.step.value}, {"reason", event.reason}};
  append(journal_, row.dump());
}

void RunFolder::on(const train::Stopped& event) {
  Json row{{"event", "stopped"}, {"time", seconds_since_1970()}, {"step", event.step.value}, {"reason", event.reason}};
  append(journal_, row.dump());
}

void RunFolder::on(const train::Finished& event) {
  std::vector<double> speeds;
  for_each_line(folder_ / "metrics.jsonl", [&](const Json& row) {
    if (row.contains("samples_per_s")) speeds.push_back(row["samples_per_s"]);
  });
  if (!speeds.empty()) {
    std::nth_element(speeds.begin(), speeds.begin() + static_cast<std::ptrdiff_t>(speeds.size() / 2), speeds.end());
    result_.samples_per_s = speeds[speeds.size() / 2];
  }
  result_.interruptions = result_.steps_repeated = result_.failed_saves = result_.skipped_saves = 0;
  for_each_line(folder_ / "journal.jsonl", [&](const Json& row) {
    if (row.value("interrupted", false)) ++result_.interruptions;
    if (row.value("event", "") == "save_failed") ++result_.failed_saves;
    if (row.value("event", "") == "save_skipped") ++result_.skipped_saves;
    result_.steps_repeated += row.value("steps_repeated", std::int64_t{0});
  });
  result_.steps = event.step.value;
  result_.loss = event.loss;
  result_.accuracy = event.accuracy;
  Json row{{"status", "finished"},
           {"steps", result_.steps},
           {"loss", result_.loss},
           {"accuracy", result_.accuracy},
           {"samples_per_s", result_.samples_per_s},
           {"interruptions", result_.interruptions},
           {"steps_repeated", result_.steps_repeated},
           {"failed_saves", result_.failed_saves},
           {"skipped_saves", result_.skipped_saves},
           {"ranks", result_.ranks},
           {"backend", result_.backend}};
  replace_file(folder_ / "result.json", row.dump(2) + "\n");
  Json done{{"event", "finished"}, {"time", seconds_since_1970()}, {"step", event.step.value}};
  append(journal_, done.dump());
}

checkpoint::FailureRecord read_failures(const std::filesystem::path& run_folder) {
  checkpoint::FailureRecord record;
  double last = 0;
  bool running = false;
  for_each_line(run_folder / "journal.jsonl", [&](const Json& row) {
    auto event = row.value("event", "");
    double time = row.value("time", 0.0);
    if (event == "started") {
      record.failures += running;
      last = time;  // what lies between two starts is no training
      running = true;
    }
    record.seconds += std::max(0.0, time - last);
    last = std::max(last, time);
    if (event == "stopped" || event == "finished") running = false;
  });
  record.failures += running;
  return record;
}

std::vector<Step> read_starts(const std::filesystem::path& run_folder) {
  std::vector<Step> starts;
  for_each_line(run_folder / "journal.jsonl", [&](const Json& row) {
    if (row.value("event", "") == "started") starts.emplace_back(row.value("resumed_from", std::int64_t{0}));
  });
  return starts;
}

Result read_result(const std::filesystem::path& run_folder) {
  auto file = run_folder / "result.json";
  std::ifstream in(file);
  if (!in)
    throw StorageError(fmt::format("cannot open \"{}\"; the run has not finished", file.string()),
                       ExitCode::incomplete);
  auto row = Json::parse(in, nullptr, false);
  if (!row.is_object())
    throw StorageError(fmt::format("\"{}\" is not a JSON object: it is damaged; run the same job again", file.string()),
                       ExitCode::corrupt);
  return {row.value("steps", std::int64_t{0}),
          row.value("loss", 0.0),
          row.value("accuracy", 0.0),
          row.value("samples_per_s", 0.0),
          row.value("interruptions", std::int64_t{0}),
          row.value("steps_repeated", std::int64_t{0}),
          row.value("ranks", 0),
          row.value("failed_saves", std::int64_t{0}),
          row.value("skipped_saves", std::int64_t{0}),
          row.value("backend", "")};
}

}  // namespace distdl::observe
