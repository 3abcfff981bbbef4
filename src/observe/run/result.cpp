// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cerrno>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <distdl/base/errors.hpp>
#include <distdl/base/json/numbers.hpp>
#include <distdl/base/log.hpp>
#include <distdl/base/median.hpp>
#include <distdl/files/file_operations.hpp>
#include <distdl/observe/record_lines.hpp>
#include <distdl/observe/run/result.hpp>
#include <distdl/records/causes.hpp>

namespace distdl::observe {
namespace {
using Json = nlohmann::ordered_json;
constexpr std::array<const char*, 3> kStatus{"finished", "stopped", "failed"};

/// null stands for none.
Json number_or_null(std::optional<double> value) {
  return value ? Json(*value) : Json(nullptr);
}

std::optional<double> optional_number(const nlohmann::json& row, const char* key) {
  const auto found = row.find(key);
  return found != row.end() && found->is_number() ? std::optional(found->get<double>()) : std::nullopt;
}

StorageError damaged(const std::string& file, const std::string& why) {
  return StorageError(fmt::format("\"{}\" is damaged: {}; run the same job again, or remove the file", file, why),
                      ExitCode::corrupt);
}

/// Harmonic mean: all samples divided by the whole time, if each step has equally many samples.
double mean_of_speeds(const std::vector<double>& speeds) {
  double seconds = 0;  // for one sample of each step
  for (const double speed : speeds) seconds += 1 / speed;
  return static_cast<double>(speeds.size()) / seconds;
}

ResultStatus status_from(const nlohmann::json& row) {
  const auto text = row.value("status", "finished");
  for (std::size_t i = 0; i < kStatus.size(); ++i)
    if (text == kStatus[i]) return static_cast<ResultStatus>(i);
  throw StorageError("its status is \"" + text + "\"");
}

void collect_from_journal(Result& result, const std::filesystem::path& run_folder) {
  for_each_record(run_folder / "journal.jsonl", [&](const records::Row& row) {
    if (row.is<records::SaveFailed>()) ++result.failed_saves;
    if (row.is<records::SaveSkipped>()) ++result.skipped_saves;
    const auto* const started = row.as<records::Started>();
    if (!started) return;
    if (started->interrupted) ++result.interruptions;
    result.steps_repeated += started->steps_repeated;
    result.ranks = started->world_size;
    result.backend = started->backend;
    result.start = row.start.value_or(0);
  });
}

/// Measurements of the steps of a run.
struct Measured {
  std::vector<double> speeds, speeds_above_0;
  std::vector<double> speeds_of_last_start, mfu, hfu;

  void add(const records::StepDone& done, bool is_of_last_start) {
    if (!done.samples_per_s) return;
    speeds.push_back(*done.samples_per_s);
    if (*done.samples_per_s > 0) speeds_above_0.push_back(*done.samples_per_s);
    if (!is_of_last_start) return;
    speeds_of_last_start.push_back(*done.samples_per_s);
    if (done.mfu) mfu.push_back(*done.mfu);
    if (done.hfu) hfu.push_back(*done.hfu);
  }
  void move_to(Result& result) {
    if (!speeds.empty()) result.samples_per_s = median(std::move(speeds));
    if (!speeds_above_0.empty()) result.samples_per_s_mean = mean_of_speeds(speeds_above_0);
    if (!speeds_of_last_start.empty()) result.samples_per_s_of_start = median(std::move(speeds_of_last_start));
    if (!mfu.empty()) result.mfu = median(std::move(mfu));
    if (!hfu.empty()) result.hfu = median(std::move(hfu));
  }
};
}  // namespace

const char* name_of(ResultStatus status) {
  return kStatus[static_cast<std::size_t>(status)];
}

Result collect_result(const std::filesystem::path& run_folder) {
  Result result;
  collect_from_journal(result, run_folder);
  Measured measured;
  for_each_record(run_folder / "metrics.jsonl", [&](const records::Row& row) {
    if (const auto step = step_of(row.record)) result.steps = step->value;
    if (const auto* const evaluated = row.as<records::Evaluated>()) {
      if (evaluated->loss) result.loss = evaluated->loss;
      if (evaluated->accuracy) result.accuracy = evaluated->accuracy;
    }
    const bool is_of_last_start = result.start != 0 && row.start == result.start;
    if (const auto* const done = row.as<records::StepDone>()) measured.add(*done, is_of_last_start);
  });
  measured.move_to(result);
  return result;
}

std::string to_text(const Result& result) {
  Json row{{"status", name_of(result.status)},
           {"steps", result.steps},
           {"loss", number_or_null(result.loss)},
           {"accuracy", number_or_null(result.accuracy)},
           {"samples_per_s", result.samples_per_s},
           {"samples_per_s_of_start", number_or_null(result.samples_per_s_of_start)},
           {"samples_per_s_mean", number_or_null(result.samples_per_s_mean)},
           {"mfu", number_or_null(result.mfu)},
           {"hfu", number_or_null(result.hfu)},
           {"interruptions", result.interruptions},
           {"steps_repeated", result.steps_repeated},
           {"failed_saves", result.failed_saves},
           {"skipped_saves", result.skipped_saves},
           {"ranks", result.ranks},
           {"backend", result.backend},
           {"start", result.start}};
  if (result.code) row["code"] = *result.code;
  if (!result.cause.empty()) row["cause"] = result.cause;
  if (!result.cause_code.empty()) row["cause_code"] = result.cause_code;
  return row.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result result_from(const std::string& text, const std::string& name) try {
  if (text.find_first_not_of(" \t\r\n") == std::string::npos)
    throw StorageError("it is empty, as after a crash or on a full disk");
  const auto row = nlohmann::json::parse(text);
  Result result;
  result.status = status_from(row);
  result.steps = whole_in<std::int64_t>(row, "steps");
  result.loss = optional_number(row, "loss");
  result.accuracy = optional_number(row, "accuracy");
  result.samples_per_s = optional_number(row, "samples_per_s").value_or(0);
  result.samples_per_s_of_start = optional_number(row, "samples_per_s_of_start");
  result.samples_per_s_mean = optional_number(row, "samples_per_s_mean");
  result.mfu = optional_number(row, "mfu");
  result.hfu = optional_number(row, "hfu");
  result.interruptions = whole_in<std::int64_t>(row, "interruptions");
  result.steps_repeated = whole_in<std::int64_t>(row, "steps_repeated");
  result.ranks = whole_in<int>(row, "ranks");
  result.failed_saves = whole_in<std::int64_t>(row, "failed_saves");
  result.skipped_saves = whole_in<std::int64_t>(row, "skipped_saves");
  result.backend = row.value("backend", "");
  result.start = whole_in<std::int64_t>(row, "start");
  if (row.contains("code")) result.code = whole_in<int>(row, "code");
  result.cause = row.value("cause", "");
  result.cause_code = row.value("cause_code", "");
  return result;
} catch (const nlohmann::json::parse_error& error) {
  throw damaged(name, fmt::format("it is no JSON from byte {} on", error.byte));
} catch (const nlohmann::json::exception&) {
  throw damaged(name, "a value is of another type than distdl writes");
} catch (const StorageError& error) {
  throw damaged(name, error.what());
}

Result read_result(const std::filesystem::path& run_folder) {
  const auto file = run_folder / "result.json";
  const auto text = read_text(real_file_system(), file, records::kLongestLine);
  if (!text)
    throw StorageError(
        fmt::format("cannot open \"{}\"; the run has neither finished, stopped nor failed", file.string()),
        ExitCode::incomplete);
  return result_from(*text, file.string());
}

void write_result(const std::filesystem::path& run_folder, const Result& result) {
  replace_text(real_file_system(), resolved(run_folder) / "result.json", to_text(result));
}

void drop_unfinished_result(const std::filesystem::path& run_folder) try {
  const Result result = read_result(run_folder);
  if (result.status == ResultStatus::finished && result.cause_code != records::kStoppedEarly) return;
  const auto file = resolved(run_folder) / "result.json";
  if (!remove_file(file) && errno != ENOENT)
    log(Severity::warning, "cannot remove \"{}\": {}; it tells of an earlier start", file.string(), errno_text(errno));
} catch (const StorageError& error) {
  log(Severity::debug, "no result of an earlier start: {}", error.what());
}

}  // namespace distdl::observe
