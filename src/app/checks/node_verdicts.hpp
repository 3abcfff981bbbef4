// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include <distdl/app/checks/node_report.hpp>
#include <distdl/base/one_of.hpp>

namespace distdl::app {

/// From good to bad.
enum class NodeHealth { ok, slow, silent, wrong };
constexpr std::array<Named<NodeHealth>, 4> choices_of(NodeHealth) {
  return {{{NodeHealth::ok, "ok", ""},
           {NodeHealth::slow, "slow", ""},
           {NodeHealth::silent, "silent", "it did not report"},
           {NodeHealth::wrong, "wrong", "it computes or stores wrong values"}}};
}

struct NodeVerdict {
  std::string node;
  NodeHealth health = NodeHealth::ok;
  std::string cause = {};                           ///< for people
  NodeCheckReport report = {};                      ///< empty for a silent one
  std::map<std::string, std::string> slow_in = {};  ///< "network": "25 MB/s, the median is 420"
};

/// A verdict for each of `nodes`, in their order. Wrong is a node that says so itself, and one whose gradients are not
/// those of the majority of its kind. Without a majority all of the kind are wrong, because one is, and nobody knows
/// which. Slow is a node with less than `slow_share` of the median: in computing of its kind, else of all. A file that
/// takes less than 0.1 s, and a latency below 1 ms, is never slow. If most nodes have no links, none is silent for it.
std::vector<NodeVerdict> judge_nodes(const std::vector<std::string>& nodes, const std::vector<NodeCheckReport>& reports,
                                     double slow_share);

/// A second look at the same nodes: what is only slow or silent must be so both times, and slow in the same. A node
/// that was busy at the first look, and had a slow moment of another kind at the second, is neither.
std::vector<NodeVerdict> confirm(const std::vector<NodeVerdict>& first, const std::vector<NodeVerdict>& second);

/// The nodes to leave out, worst first, so that at least `needed` are left.
std::vector<NodeVerdict> choose_excluded(const std::vector<NodeVerdict>& verdicts, std::size_t needed);

/// "the links of n1 and n2 were not measured: CAUSE", of nodes that are not to blame for it; empty if there are none.
std::string unmeasured_links(const std::vector<NodeVerdict>& verdicts);

/// Lines of a table: the head, each node that is not ok, and the medians of the others. "-": not measured.
std::vector<std::string> table_of(const std::vector<NodeVerdict>& verdicts);

}  // namespace distdl::app
