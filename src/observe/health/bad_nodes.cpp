// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <sstream>

#include <fmt/chrono.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <distdl/base/clock.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/local_time.hpp>
#include <distdl/base/log.hpp>
#include <distdl/files/file_operations.hpp>
#include <distdl/observe/health/bad_nodes.hpp>
#include <distdl/observe/record_lines.hpp>
#include <distdl/observe/record_writer.hpp>

namespace distdl::observe {
namespace {
using Row = nlohmann::ordered_json;
constexpr const char* kFile = "bad-nodes.jsonl";
constexpr const char* kCorruption = "silent corruption: ";  ///< what such a cause begins with

Row new_row(const char* event) {
  const double now = seconds_since_1970();
  return {{"event", event}, {"time", now}, {"local_time", fmt::format("{:%Y-%m-%d %H:%M:%S}", in_local_time(now))}};
}

/// It is read again and again: one warning is enough.
void for_each_row(const std::filesystem::path& run_folder, const std::function<void(const Record&)>& visit) try {
  read_records(run_folder / kFile, visit);
} catch (const StorageError& error) {
  static std::atomic<bool> warned = false;
  if (error.exit_code() != ExitCode::incomplete && !warned.exchange(true))
    log(Severity::warning, "{}; bad nodes of earlier starts are not avoided", error.what());
}

void append_row(const std::filesystem::path& run_folder, const Row& row) {
  RecordWriter(resolved(run_folder) / kFile).append(row.dump(-1, ' ', false, Row::error_handler_t::replace));
}
}  // namespace

void note_bad_node(const std::filesystem::path& run_folder, const BadNode& node) {
  Row row = new_row("bad_node");
  row["nodes"] = node.node;
  row["cause"] = node.cause;
  row["job"] = node.job;
  append_row(run_folder, row);
}

void note_corrupt_node(const std::filesystem::path& run_folder, const std::string& node, const std::string& reason) {
  note_bad_node(run_folder, {node, kCorruption + reason});
}

bool is_corrupt(const BadNode& node) {
  return node.cause.starts_with(kCorruption);
}

void note_exclusion(const std::filesystem::path& run_folder, const std::string& job,
                    const std::vector<std::string>& nodes) {
  Row row = new_row("excluded");
  row["nodes"] = fmt::format("{}", fmt::join(nodes, ","));
  row["job"] = job;
  append_row(run_folder, row);
}

std::vector<std::string> read_exclusion(const std::filesystem::path& run_folder, const std::string& job) {
  std::string list;
  for_each_row(run_folder, [&](const Record& row) {
    if (row.event == "excluded" && row.job == job) list = row.nodes;
  });
  std::vector<std::string> nodes;
  std::istringstream names(list);
  for (std::string name; std::getline(names, name, ',');) nodes.push_back(name);
  return nodes;
}

std::vector<BadNode> read_bad_nodes(const std::filesystem::path& run_folder) {
  std::vector<BadNode> nodes;
  for_each_row(run_folder, [&](const Record& row) {
    if (row.event != "bad_node" || row.nodes.empty()) return;
    std::erase_if(nodes, [&](const BadNode& known) { return known.node == row.nodes; });
    nodes.push_back({row.nodes, row.cause, row.job, row.time});
  });
  std::reverse(nodes.begin(), nodes.end());
  return nodes;
}

}  // namespace distdl::observe
