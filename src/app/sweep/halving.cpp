// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <distdl/app/sweep/halving.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/json/numbers.hpp>
#include <distdl/files/file_operations.hpp>

namespace distdl::app {
namespace {
using RungJson = nlohmann::ordered_json;

constexpr std::uint64_t kLongestRung = 4 << 20;  ///< bytes of a file

std::filesystem::path file_of_rung(const std::filesystem::path& folder, std::int64_t rung) {
  return folder / fmt::format("rung-{:04}.json", rung);
}
}  // namespace

std::string to_text(const HalvingRung& rung) {
  RungJson values = RungJson::array();
  for (const auto& [run, value] : rung.values)
    values.push_back({{"run", run}, {"value", value ? RungJson(*value) : RungJson(nullptr)}});
  RungJson row{{"rung", rung.rung}, {"step", rung.end_at}, {"values", std::move(values)}};
  row["going_on"] = rung.going_on ? RungJson(*rung.going_on) : RungJson(nullptr);
  return row.dump(2) + "\n";
}

HalvingRung rung_from(const std::string& text, const std::string& name) try {
  const auto row = nlohmann::json::parse(text);
  HalvingRung rung{whole<std::int64_t>(row.at("rung")), whole<std::int64_t>(row.at("step"))};
  for (const auto& each : row.at("values")) {
    const auto& value = each.at("value");
    rung.values[whole<std::uint32_t>(each.at("run"))] =
        value.is_null() ? std::nullopt : std::optional(value.get<double>());
  }
  if (row.at("going_on").is_null()) return rung;
  rung.going_on.emplace();
  for (const auto& run : row.at("going_on")) rung.going_on->push_back(whole<std::uint32_t>(run));
  return rung;
} catch (const nlohmann::json::exception& error) {
  throw StorageError(fmt::format("\"{}\" is damaged: {}; remove it, and it is decided again", name, error.what()),
                     ExitCode::corrupt);
} catch (const StorageError& error) {
  throw StorageError(fmt::format("\"{}\" is damaged: {}; remove it, and it is decided again", name, error.what()),
                     ExitCode::corrupt);
}

std::vector<HalvingRung> read_rungs(const std::filesystem::path& folder) {
  std::vector<HalvingRung> rungs;
  while (true) {
    const auto file = file_of_rung(folder, std::ssize(rungs) + 1);
    const auto text = read_text(real_file_system(), file, kLongestRung);
    if (!text) return rungs;
    rungs.push_back(rung_from(*text, file.string()));
  }
}

void write_rung(const std::filesystem::path& folder, const HalvingRung& rung) {
  replace_text(real_file_system(), file_of_rung(resolved(folder), rung.rung), to_text(rung));
}

/// The last one first: if this is broken off, what is decided before an open rung still stands.
void reopen_rungs(const std::filesystem::path& folder, const std::set<std::size_t>& retried) {
  auto rungs = read_rungs(folder);
  std::size_t first = 0;
  const auto has_failed_in = [&](const HalvingRung& rung) {
    return std::ranges::any_of(rung.values,
                               [&](const auto& each) { return !each.second && retried.contains(each.first); });
  };
  while (first < rungs.size() && !has_failed_in(rungs[first])) ++first;
  for (std::size_t i = rungs.size(); i-- > first;) {
    std::erase_if(rungs[i].values, [](const auto& each) { return !each.second; });
    rungs[i].going_on.reset();
    write_rung(folder, rungs[i]);
  }
}

}  // namespace distdl::app
