// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <distdl/agent/decision.hpp>
#include <distdl/agent/ledger.hpp>
#include <distdl/agent/messages.hpp>

namespace distdl::agent {

/// Record that an agent of another job needs to join a launch. It lies beside the ledger's decisions, and holds the
/// secret of the agents: only its owner may read the file.
struct LaunchRecord {
  std::string id;       ///< id of the launch
  std::string version;  ///< version of distdl
  std::string job;      ///< the job file with all overrides, as text: an agent that reads another one must not join
  std::vector<std::string> arguments = {};  ///< arguments of the ranks: the job file, "--set", "train.epochs=2"
  std::vector<std::string> more = {};       ///< further arguments of the ranks: "--below", "12"
  std::string folder = {};                  ///< the current folder of the agents
  int ranks = 1, min_nodes = 1;             ///< as in AgentSpec
  /// Variables of Slurm that tell a rank which job it works for: ranks on nodes that join work for the launch's job.
  std::map<std::string, std::string> variables = {};
  std::vector<AgentAddress> agents = {};  ///< addresses of the launch's own nodes
  std::string secret = {};                ///< secret of all agents
};

std::string to_text(const LaunchRecord& record);
/// `file`: where the text was, for messages. Throws StorageError (corrupt) if it is no such record, or has values that
/// none can have; ConfigError if another version of distdl has started the launch.
LaunchRecord launch_record_from(const std::string& text, const std::filesystem::path& file);

inline constexpr const char* kLaunchRecord = "launch";  ///< name of the launch record in the ledger

/// The folder of a launch's ledger, in which its agents store what they agree on.
std::filesystem::path launch_folder(const std::filesystem::path& run_folder, const std::string& launch_id);
/// The exit code with which a launch has ended, as its agents have agreed; nothing if they have not. srun's own code
/// says less: it fails where a node was lost. Throws StorageError.
std::optional<int> agreed_code(const std::filesystem::path& run_folder, const std::string& launch_id);

/// A launch that goes on, as far as the run folder tells.
struct OpenLaunch {
  LaunchRecord record;
  Decision newest;  ///< newest decision in its ledger
};
/// The launch with this id. Nothing if its agents have not begun the first generation, or if it has ended. Throws
/// StorageError (corrupt: a record is damaged), ConfigError (as launch_record_from()).
std::optional<OpenLaunch> find_launch(const std::filesystem::path& run_folder, const std::string& id);
/// Removes what a launch has left in the run folder. That this is not possible is a warning in the log.
void remove_launch(const std::filesystem::path& run_folder, const std::string& launch_id);
/// Removes what launches have left whose start was killed, with their secrets. For a start that has the run folder's
/// lock: agents of such a launch that still run can decide no more generations then, and end. Throws StorageError if
/// the folder of all launches is a link, or no folder.
void remove_abandoned_launches(const std::filesystem::path& run_folder);

/// The last decision; nothing if no generation has begun. Throws StorageError, corrupt if it is damaged.
std::optional<Decision> newest_decision(const Ledger& ledger);

/// The nodes that have joined a launch, in the order of their numbers. Throws StorageError.
std::vector<AgentAddress> joined_nodes(const Ledger& ledger, std::size_t nodes_of_launch);
/// Makes `self` the next one of them, also while others do the same. Returns its number. Throws StorageError.
NodeId join_nodes(const Ledger& ledger, std::size_t nodes_of_launch, const AgentAddress& self);

/// The name of a node's record in the ledger, and back.
std::string record_of_node(std::size_t node);
std::optional<std::size_t> node_of_record(const std::string& name);

}  // namespace distdl::agent
