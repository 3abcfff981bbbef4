// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <ctime>

#include <fmt/chrono.h>
#include <nlohmann/json.hpp>

#include <distdl/base/clock.hpp>
#include <distdl/observe/bad_nodes.hpp>
#include <distdl/observe/record_lines.hpp>
#include <distdl/observe/record_writer.hpp>

namespace distdl::observe {
namespace {
constexpr const char* kFile = "bad-nodes.jsonl";
}

void note_bad_node(const std::filesystem::path& run_folder, const BadNode& node) {
  const double now = seconds_since_1970();
  const nlohmann::ordered_json row{
      {"event", "bad_node"},
      {"time", now},
      {"local_time", fmt::format("{:%Y-%m-%d %H:%M:%S}", fmt::localtime(static_cast<std::time_t>(now)))},
      {"nodes", node.node},
      {"cause", node.cause},
      {"job", node.job}};
  RecordWriter(run_folder / kFile).append(row.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

std::vector<BadNode> read_bad_nodes(const std::filesystem::path& run_folder) {
  std::vector<BadNode> nodes;
  for_each_record(run_folder / kFile, [&](const Record& row) {
    if (row.event != "bad_node" || row.nodes.empty()) return;
    std::erase_if(nodes, [&](const BadNode& known) { return known.node == row.nodes; });
    nodes.push_back({row.nodes, row.cause, row.job, row.time});
  });
  std::reverse(nodes.begin(), nodes.end());
  return nodes;
}

}  // namespace distdl::observe
