// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <utility>

#include <fmt/chrono.h>

#include <distdl/base/clock.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/local_time.hpp>
#include <distdl/base/log.hpp>
#include <distdl/files/file_operations.hpp>
#include <distdl/observe/health/bad_nodes.hpp>
#include <distdl/observe/record_lines.hpp>
#include <distdl/observe/record_writer.hpp>
#include <distdl/records/row_text.hpp>

namespace distdl::observe {
namespace {
constexpr const char* kFile = "bad-nodes.jsonl";
constexpr const char* kCorruption = "silent corruption: ";  ///< what such a cause begins with

/// `make`: gives the record of a time, as people read it.
template <class Make>
void append_row(const std::filesystem::path& run_folder, const Make& make) {
  const double now = seconds_since_1970();
  const records::Row row{make(fmt::format("{:%Y-%m-%d %H:%M:%S}", in_local_time(now))), now};
  RecordWriter(resolved(run_folder) / kFile).append(text_of(row));
}

/// It is read again and again: one warning is enough.
void for_each_row(const std::filesystem::path& run_folder, const std::function<void(const records::Row&)>& visit) try {
  read_records(run_folder / kFile, visit);
} catch (const StorageError& error) {
  static std::atomic<bool> warned = false;
  if (error.exit_code() != ExitCode::incomplete && !warned.exchange(true))
    log(Severity::warning, "{}; bad nodes of earlier starts are not avoided", error.what());
}
}  // namespace

void note_bad_node(const std::filesystem::path& run_folder, const BadNode& node) {
  append_row(run_folder, [&](std::string local_time) {
    return records::NodeIsBad{std::move(local_time), node.node, node.cause, node.job};
  });
}

void note_corrupt_node(const std::filesystem::path& run_folder, const std::string& node, const std::string& reason) {
  note_bad_node(run_folder, {node, kCorruption + reason});
}

bool is_corrupt(const BadNode& node) {
  return node.cause.starts_with(kCorruption);
}

void note_exclusion(const std::filesystem::path& run_folder, const std::string& job,
                    const std::vector<std::string>& nodes) {
  append_row(run_folder, [&](std::string local_time) {
    return records::NodesExcluded{std::move(local_time), nodes, job};
  });
}

std::vector<std::string> read_exclusion(const std::filesystem::path& run_folder, const std::string& job) {
  std::vector<std::string> nodes;
  for_each_row(run_folder, [&](const records::Row& row) {
    if (const auto* const excluded = row.as<records::NodesExcluded>(); excluded && excluded->job == job)
      nodes = excluded->nodes;
  });
  return nodes;
}

std::vector<BadNode> read_bad_nodes(const std::filesystem::path& run_folder) {
  std::vector<BadNode> nodes;
  for_each_row(run_folder, [&](const records::Row& row) {
    const auto* const bad = row.as<records::NodeIsBad>();
    if (!bad || bad->node.empty()) return;
    std::erase_if(nodes, [&](const BadNode& known) { return known.node == bad->node; });
    nodes.push_back({bad->node, bad->cause, bad->job, row.time});
  });
  std::reverse(nodes.begin(), nodes.end());
  return nodes;
}

}  // namespace distdl::observe
