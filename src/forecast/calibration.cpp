// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <fstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <distdl/base/checksum.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/json/numbers.hpp>
#include <distdl/base/processors.hpp>
#include <distdl/base/regular_file.hpp>
#include <distdl/comm/selection/cost_cache.hpp>
#include <distdl/files/file_operations.hpp>
#include <distdl/forecast/calibration.hpp>

namespace distdl::forecast {
namespace {
using Json = nlohmann::ordered_json;
constexpr const char* kWhat = "distdl calibration";
constexpr std::size_t kLargestFile = 4 << 20;

/// Calls visit(name, number) for each number of a work.
template <class Work, class Visitor>
void describe_work(Work& measured, Visitor&& visit) {
  visit("forward_seconds", measured.work.forward);
  visit("backward_seconds", measured.work.backward);
  visit("add_seconds", measured.work.add);
  visit("update_seconds", measured.work.update);
  visit("load_seconds", measured.work.load);
  visit("rest_seconds", measured.work.rest);
  visit("spread", measured.work.spread);
  visit("read_seconds", measured.read);
  visit("flops", measured.flops);
  visit("program_bytes", measured.program_bytes);
}

template <class Table, class Visitor>
void describe_node(Table& calibration, Visitor&& visit) {
  visit("busy_per_byte", calibration.busy_per_byte);
  visit("copy_rate", calibration.copy_rate);
  visit("write_rate", calibration.write_rate);
}

/// Visits the numbers that older calibrations lack.
template <class Table, class Visitor>
void describe_later(Table& calibration, Visitor&& visit) {
  visit("nap_seconds", calibration.nap_seconds);
  visit("touch_per_byte", calibration.touch_per_byte);
}

double number_in(const nlohmann::json& object, const char* name) {
  const auto value = object.at(name).get<double>();
  require(std::isfinite(value) && value >= 0, "{} is {}, but must be a number from 0 on", name, value);
  return value;
}

MeasuredWork work_from(const nlohmann::json& row) {
  MeasuredWork measured;
  measured.identity = row.at("work").get<std::string>();
  measured.ranks = whole<int>(row.at("ranks"));
  measured.processors = whole<int>(row.at("processors"));
  describe_work(measured, [&](const char* name, double& value) { value = number_in(row, name); });
  for (const auto& each : row.at("finals"))
    measured.work.finals.push_back({whole<std::size_t>(each.at(0)), each.at(1).get<double>()});
  return measured;
}

Json work_row(const MeasuredWork& measured) {
  Json row{{"work", measured.identity}, {"ranks", measured.ranks}, {"processors", measured.processors}};
  describe_work(measured, [&](const char* name, double value) { row[name] = value; });
  row["finals"] = Json::array();
  for (const auto& [place, seconds] : measured.work.finals) row["finals"].push_back({place, seconds});
  return row;
}
}  // namespace

std::string to_string(const NodeKind& kind) {
  return fmt::format("{} x {}, {}", kind.processors, kind.processor,
                     kind.backend.empty() ? "no backend" : kind.backend);
}

NodeKind kind_of_this_node(std::string backend) {
  std::ifstream file("/proc/cpuinfo");
  return {processor_name(file), static_cast<int>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN))), std::move(backend)};
}

const MeasuredWork* Calibration::find(const std::string& identity, int ranks) const {
  const MeasuredWork* best = nullptr;
  for (const auto& each : works)
    if (each.identity == identity && (!best || std::abs(each.ranks - ranks) < std::abs(best->ranks - ranks)))
      best = &each;
  return best;
}

void Calibration::add(MeasuredWork measured) {
  std::erase_if(works,
                [&](const auto& old) { return old.identity == measured.identity && old.ranks == measured.ranks; });
  works.push_back(std::move(measured));
}

void Calibration::add(const MeasuredPeak& measured) {
  std::erase_if(peaks, [&](const auto& old) { return old.ranks == measured.ranks; });
  peaks.push_back(measured);
}

double Calibration::peak_flops(int ranks) const {
  const auto distance = [ranks](const MeasuredPeak& peak) { return std::abs(peak.ranks - ranks); };
  const auto nearest = std::ranges::min_element(peaks, {}, distance);
  return nearest == peaks.end() ? 0 : nearest->flops;
}

double Calibration::flops_per_second(int ranks) const {
  double flops = 0, seconds = 0;
  const bool has_such = std::ranges::any_of(works, [&](const auto& each) { return each.ranks == ranks; });
  for (const auto& each : works)
    if (each.ranks == ranks || !has_such) {
      flops += 3 * each.flops;  // with the backward pass
      seconds += each.work.forward + each.work.backward;
    }
  return seconds > 0 ? flops / seconds : 0;
}

std::string to_json(const Calibration& calibration) {
  const auto& [processor, processors, backend] = calibration.kind;
  Json document{{"what", kWhat},          {"version", Calibration::kVersion},
                {"processor", processor}, {"processors", processors},
                {"backend", backend},     {"memory_bytes", calibration.memory_bytes}};
  const auto write = [&](const char* name, double value) { document[name] = value; };
  describe_node(calibration, write);
  describe_later(calibration, write);
  if (calibration.costs)
    comm::describe_costs(*calibration.costs, [&](const char* name, double value, const char*, const char*) {
      document["costs"][name] = value;
    });
  document["peaks"] = Json::array();
  for (const auto& [ranks, flops] : calibration.peaks)
    document["peaks"].push_back({{"ranks", ranks}, {"flops_per_second", flops}});
  document["works"] = Json::array();
  for (const auto& each : calibration.works) document["works"].push_back(work_row(each));
  return document.dump(2) + "\n";
}

Calibration calibration_from(const std::string& text) try {
  const auto document = nlohmann::json::parse(text);
  require(document.at("what") == kWhat, "it is not a calibration");
  require(document.at("version") == Calibration::kVersion, "its version is {}, but this distdl reads {}",
          document.at("version").dump(), Calibration::kVersion);
  Calibration calibration;
  calibration.kind = {document.at("processor").get<std::string>(), whole<int>(document.at("processors")),
                      document.at("backend").get<std::string>()};
  calibration.memory_bytes = whole<std::uint64_t>(document.at("memory_bytes"));
  describe_node(calibration, [&](const char* name, double& value) { value = number_in(document, name); });
  describe_later(calibration, [&](const char* name, double& value) {
    if (document.contains(name)) value = number_in(document, name);
  });
  if (document.contains("costs"))
    comm::describe_costs(calibration.costs.emplace(), [&](const char* name, double& value, const char*, const char*) {
      value = number_in(document.at("costs"), name);
    });
  if (document.contains("peaks"))  // older files have none
    for (const auto& row : document.at("peaks"))
      calibration.add(MeasuredPeak{whole<int>(row.at("ranks")), number_in(row, "flops_per_second")});
  for (const auto& row : document.at("works")) calibration.works.push_back(work_from(row));
  return calibration;
} catch (const nlohmann::json::exception& error) {
  throw ConfigError(error.what());
} catch (const StorageError& error) {
  throw ConfigError(error.what());
}

std::optional<std::filesystem::path> calibration_file(const NodeKind& kind) {
  const std::string name = fmt::format("{}, {}, {}", kind.processor, kind.processors, kind.backend);
  const std::vector<std::string> anywhere{"x"};
  const auto beside = comm::cost_file(anywhere);
  if (!beside) return std::nullopt;
  return beside->parent_path() /
         fmt::format("calibration-{:08x}.json", crc32c(std::as_bytes(std::span(name.data(), name.size()))));
}

std::optional<Calibration> load_calibration(const std::filesystem::path& file) {
  std::error_code error;
  if (!std::filesystem::exists(std::filesystem::symlink_status(file, error))) return std::nullopt;
  try {
    return calibration_from(read_regular(file, kLargestFile));
  } catch (const Error& what) {
    throw ConfigError(
        fmt::format("cannot use the calibration in \"{}\": {}; \"distdl bench calibrate\" writes it anew "
                    "once it is removed",
                    file.string(), what.what()));
  }
}

double known_peak(const std::string& backend, int ranks) {
  const auto file = calibration_file(kind_of_this_node(backend));
  const auto calibration = file ? load_calibration(*file) : std::nullopt;
  return calibration ? calibration->peak_flops(ranks) : 0;
}

std::filesystem::path save_calibration(const Calibration& calibration) {
  const auto file = calibration_file(calibration.kind);
  require<StorageError>(file.has_value(), "{}", "cannot store the calibration: neither XDG_CACHE_HOME nor HOME is set");
  const auto place = resolved_place(*file);
  make_folders(real_file_system(), place.parent_path());
  replace_text(real_file_system(), place, to_json(calibration));
  return *file;
}

}  // namespace distdl::forecast
