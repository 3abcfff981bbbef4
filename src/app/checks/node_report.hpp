// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

namespace distdl::app {

/// Measurements that a node makes of itself before ranks are started on it. A part that is empty or 0 was not measured.
struct NodeCheckReport {
  std::string node;
  std::string kind = {};         ///< backend and processor, on which the bits depend
  std::string digest = {};       ///< digest of the gradients of a small network
  std::string wrong = {};        ///< why the node must not be used, as far as it sees that itself; empty: nothing
  double flops = 0;              ///< FLOP/s of a matrix product
  double write_rate = 0;         ///< bytes per second, to the disk; with fsync
  double read_rate = 0;          ///< bytes per second
  double latency = 0;            ///< seconds, 8 bytes to the better of both adjacent nodes, one way
  double link_rate = 0;          ///< bytes per second and direction
  std::string unconnected = {};  ///< why the links were not measured
};

/// One JSON object.
std::string to_text(const NodeCheckReport& report);
/// Nothing if to_text() did not make the text.
std::optional<NodeCheckReport> node_report_from(const std::string& text);

}  // namespace distdl::app
