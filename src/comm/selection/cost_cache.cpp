// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cmath>
#include <set>
#include <string_view>

#include <nlohmann/json.hpp>
#include <unistd.h>

#include <distdl/base/env.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/base/regular_file.hpp>
#include <distdl/comm/selection/cost_cache.hpp>
#include <distdl/files/file_operations.hpp>

namespace distdl::comm {
namespace {
namespace fs = std::filesystem;

constexpr std::size_t kLargest = 64 << 10;  ///< bytes of a file

/// A host name as part of a file name.
std::string plain(const std::string& host) {
  std::string text = host;
  for (char& c : text)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '.' && c != '-') c = '_';
  return text;
}

std::optional<fs::path> cache_folder() {
  if (auto folder = env("XDG_CACHE_HOME")) return fs::path(*folder) / "distdl";
  if (auto home = env("HOME")) return fs::path(*home) / ".cache" / "distdl";
  return std::nullopt;
}
}  // namespace

std::string to_json(const CostTable& costs, std::span<const std::string> hosts) {
  nlohmann::ordered_json document{{"what", "distdl communication costs"}, {"version", CostTable::kVersion}};
  document["hosts"] = std::set<std::string>(hosts.begin(), hosts.end());
  describe_costs(costs, [&](const char* name, double value, const char* unit, const char* meaning) {
    document["costs"][name] = {{"value", value}, {"unit", unit}, {"meaning", meaning}};
  });
  return document.dump(2) + "\n";
}

CostTable costs_from_json(const std::string& text) {
  CostTable costs;
  try {
    const auto document = nlohmann::json::parse(text);
    const auto& version = document.at("version");
    require(version == CostTable::kVersion, "its version is {}, but this distdl reads {}", version.dump(),
            CostTable::kVersion);
    describe_costs(costs, [&](const char* name, double& value, const char*, const char*) {
      const auto& costs_there = document.at("costs");
      // Up to 0.1 "reduce" was called "combine".
      const bool is_old = std::string_view(name) == "reduce" && !costs_there.contains(name);
      if (is_old)
        log(Severity::warning,
            "measured communication costs call \"reduce\" by its old name \"combine\", which the next version will not "
            "know; \"distdl bench comm --tune\" writes them anew");
      value = costs_there.at(is_old ? "combine" : name).at("value").get<double>();
      require(std::isfinite(value) && value > 0, "{} is {}, but must be a positive number", name, value);
    });
  } catch (const nlohmann::json::exception& error) {
    throw ConfigError(error.what());
  }
  return costs;
}

std::optional<fs::path> cost_file(std::span<const std::string> hosts) {
  const auto folder = cache_folder();
  if (!folder || hosts.empty()) return std::nullopt;
  const auto [first, last] = std::minmax_element(hosts.begin(), hosts.end());
  auto name = "costs-" + plain(*first);
  if (*last != *first) name += "+" + plain(*last);
  return *folder / (name + ".json");
}

CostTable load_costs(std::span<const std::string> hosts) {
  const auto file = cost_file(hosts);
  std::error_code error;
  if (!file || !fs::exists(fs::symlink_status(*file, error))) return {};
  try {
    return costs_from_json(read_regular(*file, kLargest));
  } catch (const Error& what) {
    log(Severity::warning,
        "cannot use the measured communication costs in \"{}\": {}; algorithms are chosen by built-in costs until "
        "\"distdl bench comm --tune\" has run again",
        file->string(), what.what());
    return {};
  }
}

fs::path save_costs(const CostTable& costs, std::span<const std::string> hosts) {
  const auto file = cost_file(hosts);
  require<StorageError>(file.has_value(), "{}",
                        "cannot store the measured communication costs: neither XDG_CACHE_HOME nor HOME is set");
  try {
    const auto place = resolved_place(*file);
    make_folders(real_file_system(), place.parent_path());
    replace_text(real_file_system(), place, to_json(costs, hosts));
  } catch (const StorageError& error) {
    throw StorageError(fmt::format("{}; set XDG_CACHE_HOME to a writable folder", error.what()));
  }
  return *file;
}

}  // namespace distdl::comm
