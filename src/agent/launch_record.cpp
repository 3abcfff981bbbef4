// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <charconv>
#include <string_view>
#include <utility>

#include <distdl/agent/launch_record.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/files/own_folder.hpp>
#include <distdl/files/private_folder.hpp>

namespace distdl::agent {
namespace {
namespace fs = std::filesystem;

constexpr std::string_view kNode = "node-";
constexpr const char* kRanks = "ranks";  ///< the folder in which the ranks of each generation meet, see Agent

/// The names of files in the folder of a launch: the records of its ledger, and what its ranks lay down as they meet.
bool is_of_launch(const std::string& name) {
  const auto is_number = [](std::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
  };
  if (name.starts_with('.') || name.starts_with("rank-") || name.starts_with("read-")) return true;
  if (!name.ends_with(kRecordEnd)) return false;
  const auto record = name.substr(0, name.size() - kRecordEnd.size());
  return record == kLaunchRecord || is_number(record) || node_of_record(record);
}

/// Whether the folder has the record of the launch that it is called after.
bool is_launch(const fs::path& folder) try {
  const Ledger ledger(folder);
  const auto text = ledger.read(kLaunchRecord);
  return text && launch_record_from(*text, ledger.file(kLaunchRecord)).id == folder.filename();
} catch (const Error&) {
  return false;  // it is not a record of distdl
}
}  // namespace

fs::path launch_folder(const fs::path& run_folder, const std::string& launch_id) {
  return resolved(run_folder) / "launches" / launch_id;
}

std::optional<int> agreed_code(const fs::path& run_folder, const std::string& launch_id) {
  const Ledger ledger(launch_folder(run_folder, launch_id));
  if (!ledger.exists()) return std::nullopt;
  std::optional<int> code;
  for (std::uint32_t g = 1; const auto text = ledger.read(std::to_string(g)); ++g)
    if (const auto decision = decision_from(*text)) code = decision->end;
  return code;
}

std::optional<OpenLaunch> find_launch(const fs::path& run_folder, const std::string& id) {
  const Ledger ledger(launch_folder(run_folder, id));
  const auto text = ledger.read(kLaunchRecord);
  if (!text) return std::nullopt;
  const auto file = ledger.file(kLaunchRecord);
  auto record = launch_record_from(*text, file);
  if (record.id != id)
    throw StorageError(fmt::format("\"{}\" is the record of another launch, \"{}\"", file.string(), record.id),
                       ExitCode::corrupt);
  auto newest = newest_decision(ledger);
  if (!newest || newest->end) return std::nullopt;
  return OpenLaunch{std::move(record), *std::move(newest)};
}

void remove_launch(const fs::path& run_folder, const std::string& launch_id) try {
  if (const auto folder = PrivateFolder::open(launch_folder(run_folder, launch_id))) folder->remove();
} catch (const StorageError& error) {
  log(Severity::warning, "{}", error.what());
}

void remove_abandoned_launches(const fs::path& run_folder) {
  const fs::path launches = resolved(run_folder) / "launches";
  if (!is_there(launches)) return;
  for (const std::string& name : names_in(launches)) {
    if (!is_launch(launches / name)) continue;  // else it is private to this user, and called after its own record
    remove_tree(real_file_system(), launches / name / kRanks);  // the next line reports what remains
    if (remove_own_folder(launches / name, is_of_launch)) continue;
    log(Severity::warning, "cannot remove \"{}\": {}", (launches / name).string(), errno_text(errno));
  }
}

std::optional<Decision> newest_decision(const Ledger& ledger) {
  std::optional<Decision> newest;
  for (std::uint32_t g = 1; const auto text = ledger.read(std::to_string(g)); ++g) {
    newest = decision_from(*text);
    if (!newest)
      throw StorageError(fmt::format("\"{}\" is damaged", ledger.file(std::to_string(g)).string()), ExitCode::corrupt);
  }
  return newest;
}

std::vector<AgentAddress> joined_nodes(const Ledger& ledger, std::size_t nodes_of_launch) {
  std::vector<AgentAddress> nodes;
  while (const auto text = ledger.read(record_of_node(nodes_of_launch + nodes.size()))) {
    auto node = address_from(*text);
    nodes.push_back(node ? *std::move(node) : AgentAddress{"a node with a damaged record", "", ""});
  }
  return nodes;
}

NodeId join_nodes(const Ledger& ledger, std::size_t nodes_of_launch, const AgentAddress& self) {
  const std::string own = to_text(self);
  std::size_t node = nodes_of_launch + joined_nodes(ledger, nodes_of_launch).size();
  while (ledger.create(record_of_node(node), own) != own) ++node;
  require<StorageError>(node < kMostNodes, "more than {} nodes have joined this launch", kMostNodes);
  return NodeId(static_cast<std::uint32_t>(node));
}

std::string record_of_node(std::size_t node) {
  return fmt::format("{}{}", kNode, node);
}

std::optional<std::size_t> node_of_record(const std::string& name) {
  if (!name.starts_with(kNode)) return std::nullopt;
  std::size_t node = 0;
  const auto [end, error] = std::from_chars(name.data() + kNode.size(), name.data() + name.size(), node);
  return error == std::errc{} && end == name.data() + name.size() ? std::optional(node) : std::nullopt;
}

}  // namespace distdl::agent
