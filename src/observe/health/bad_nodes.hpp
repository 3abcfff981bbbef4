// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

// bad-nodes.jsonl in the run folder: nodes that a run has left out, over all its jobs.
namespace distdl::observe {

struct BadNode {
  std::string node;
  std::string cause;     ///< "slow: matrix product: 20 GFLOP/s, the median is 200"
  std::string job = {};  ///< Slurm's id
  double time = 0;       ///< seconds since 1970; note_bad_node() takes the time of its call
  friend bool operator==(const BadNode&, const BadNode&) = default;
};

/// Appends a bad node. A file system that refuses the line is no error.
void note_bad_node(const std::filesystem::path& run_folder, const BadNode& node);
/// Appends a node in which an audit found wrong bits, as note_bad_node() does. `reason`: what the audit found.
void note_corrupt_node(const std::filesystem::path& run_folder, const std::string& node, const std::string& reason);
/// True if note_corrupt_node() has noted the node.
bool is_corrupt(const BadNode& node);

/// The newest entry of each node, newest first.
std::vector<BadNode> read_bad_nodes(const std::filesystem::path& run_folder);

/// Notes that distdl keeps a job of Slurm off these nodes; those that the user has excluded are not among them. A file
/// system that refuses the line is no error.
void note_exclusion(const std::filesystem::path& run_folder, const std::string& job,
                    const std::vector<std::string>& nodes);
/// Nodes of the newest note_exclusion() for this job; empty if there was none.
std::vector<std::string> read_exclusion(const std::filesystem::path& run_folder, const std::string& job);

}  // namespace distdl::observe
