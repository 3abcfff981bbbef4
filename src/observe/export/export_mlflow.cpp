// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <distdl/base/errors.hpp>
#include <distdl/observe/export/exporters.hpp>
#include <distdl/observe/tensorboard/job_values.hpp>
#include <distdl/version.hpp>

namespace distdl::observe {
namespace {
/// A number like those that MLflow draws by chance, so that a store has no other experiment of this id.
constexpr std::string_view kExperiment = "711094823560273914";

/// YAML has the texts of JSON, but no pairs of surrogates: it has escapes of 8 digits in their place.
std::string yaml(const std::string& text) {
  constexpr std::size_t kEscape = 6;  // "\\u" and 4 digits
  const auto json = nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  const auto unit_at = [&](std::size_t at) { return std::stoul(json.substr(at + 2, 4), nullptr, 16); };
  std::string result;
  for (std::size_t at = 0; at < json.size();) {
    std::size_t length = json[at] == '\\' ? 2 : 1;
    if (json.compare(at, 2, "\\u") == 0) length = kEscape;
    if (length == kEscape && unit_at(at) >= 0xd800 && unit_at(at) < 0xdc00) {
      const auto code = 0x10000 + ((unit_at(at) - 0xd800) << 10) + (unit_at(at + kEscape) - 0xdc00);
      result += fmt::format("\\U{:08x}", code);
      length = 2 * kEscape;
    } else {
      result.append(json, at, length);
    }
    at += length;
  }
  return result;
}

std::string uri(const std::filesystem::path& folder) {
  static constexpr std::string_view kPlain = "/-._~";
  std::string text = "file://";
  for (const char c : std::filesystem::absolute(folder).lexically_normal().string()) {
    const bool is_plain = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
    text += is_plain || kPlain.find(c) != std::string_view::npos
                ? std::string(1, c)
                : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return text;
}

std::int64_t epoch_milliseconds(double seconds) {
  return static_cast<std::int64_t>(seconds * 1e3);
}

/// As mlflow.entities.RunStatus.
int status_of(Phase phase) {
  if (phase == Phase::finished) return 3;
  return phase == Phase::ended ? 4 : 1;  // failed, running
}

std::string experiment_yaml(const std::filesystem::path& folder, double time) {
  return fmt::format(
      "artifact_location: {}\ncreation_time: {}\nexperiment_id: '{}'\nlast_update_time: {}\nlifecycle_stage: active\n"
      "name: distdl\n",
      yaml(uri(folder)), epoch_milliseconds(time), kExperiment, epoch_milliseconds(time));
}

std::string run_yaml(const History& history, const std::filesystem::path& folder) {
  const bool has_ended = history.phase == Phase::finished || history.phase == Phase::ended;
  return fmt::format(
      "artifact_uri: {}\nend_time: {}\nentry_point_name: ''\nexperiment_id: '{}'\nlifecycle_stage: active\n"
      "run_id: {}\nrun_name: {}\nrun_uuid: {}\nsource_name: ''\nsource_type: 4\nsource_version: ''\nstart_time: {}\n"
      "status: {}\ntags: []\nuser_id: ''\n",
      yaml(uri(folder / "artifacts")), has_ended ? std::to_string(epoch_milliseconds(history.end)) : "null",
      kExperiment, yaml(history.id), yaml(history.name), yaml(history.id), epoch_milliseconds(history.begin),
      status_of(history.phase));
}

/// By name, the lines of each metric.
std::map<std::string_view, std::string> lines_of(const History& history) {
  std::map<std::string_view, std::string> lines;
  for (const auto& [step, row] : history.rows)
    for (const Scalar& scalar : row.scalars)
      lines[scalar.tag] += fmt::format("{} {} {}\n", epoch_milliseconds(row.time), scalar.value, step);
  return lines;
}

/// Value of a parameter: a string without its quotes, any other value as TOML; what fits of its beginning.
std::string parameter(const std::string& toml) {
  constexpr std::size_t kMost = 6000;  // bytes: MLflow takes as many characters
  const auto value = json_of(toml);
  const std::string text = value.is_string() ? value.get<std::string>() : toml;
  std::size_t end = std::min(text.size(), kMost);
  const auto is_within_character = [&](std::size_t at) { return at < text.size() && (text[at] & 0xc0) == 0x80; };
  while (end > 0 && is_within_character(end)) --end;
  return text.substr(0, end);
}

/// Runs of other exports are in it, too.
void make_experiment(const std::filesystem::path& folder, double time) {
  std::error_code error;
  if (std::filesystem::exists(folder / "meta.yaml", error)) return;
  UnfinishedFolder files(folder, false);
  files.write("meta.yaml", experiment_yaml(folder, time));
  files.finish();
}
}  // namespace

std::filesystem::path export_mlflow(const History& history, const std::filesystem::path& place, bool replace) {
  const auto experiment = place / kExperiment;
  auto folder = experiment / history.id;
  make_experiment(experiment, history.begin);
  UnfinishedFolder files(folder, replace);
  files.write("meta.yaml", run_yaml(history, folder));
  for (const auto& [tag, lines] : lines_of(history)) files.write(std::filesystem::path("metrics") / tag, lines);
  for (const auto& [key, value] : history.keys()) files.write(std::filesystem::path("params") / key, parameter(value));
  const std::map<std::string, std::string> tags{{"mlflow.runName", history.name},
                                                {"mlflow.source.name", "distdl"},
                                                {"distdl.version", distdl::version()},
                                                {"distdl.run_dir", history.folder.string()}};
  for (const auto& [tag, value] : tags) files.write(std::filesystem::path("tags") / tag, value);
  files.write("artifacts/job.toml", history.job);
  files.finish();
  return folder;
}

}  // namespace distdl::observe
