// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace distdl::comm {

/// A message of n bytes takes latency + n / bandwidth (Hockney, Parallel Computing 1994). During a part of that time,
/// the overhead, sender and receiver are busy (LogP: Culler et al., PPoPP 1993).
struct LinkCost {
  double latency = 0;    ///< seconds of an empty message
  double overhead = 0;   ///< seconds
  double bandwidth = 0;  ///< bytes per second and direction if both directions are busy
  bool operator==(const LinkCost&) const = default;
};

/// The costs of the parts of a collective on the machines of one communicator, from which choose() predicts times. The
/// defaults are those of a common server with 10 Gbit/s Ethernet; measure_costs() replaces them.
struct CostTable {
  static constexpr int kVersion = 2;

  LinkCost within{0.8e-6, 0.3e-6, 5e9};  ///< messages between ranks of one node
  LinkCost between{15e-6, 3e-6, 1.2e9};  ///< messages between nodes; all ranks of a node share the bandwidth
  double signal = 0.12e-6;               ///< seconds until another rank of the node sees a signal
  double step = 0.02e-6;                 ///< seconds of any other step of a schedule
  double reduce = 20e9;                  ///< bytes read and written per second by one rank that adds, in caches
  double copy = 30e9;                    ///< bytes read and written per second by one rank that copies, in caches
  double share = 8e9;      ///< bytes per second of reading data that another rank of the node has just written
  double memory = 30e9;    ///< bytes read and written per second by all ranks of a node, beyond the caches
  double cache = 1 << 20;  ///< bytes that a rank can work on within its caches
  double processors = 64;  ///< processors of a node; counted again whenever ranks connect
  double turn = 8e-6;      ///< additional seconds per wait for each rank that shares a processor with others

  bool operator==(const CostTable&) const = default;
  /// The table for other ranks. All ranks make the same choices only if their tables are equal in every bit.
  std::string encode() const;
  /// Throws CommError for bytes that encode() did not write.
  static CostTable decode(std::string_view bytes);
};

/// Calls visit(name, field, unit, meaning) for each number of `table`.
template <class Table, class Visitor>
void describe_costs(Table& table, Visitor&& visit) {
  visit("within_latency", table.within.latency, "s", "message between ranks of one node");
  visit("within_overhead", table.within.overhead, "s", "work of a rank for such a message");
  visit("within_bandwidth", table.within.bandwidth, "B/s", "messages between ranks of one node");
  visit("between_latency", table.between.latency, "s", "message between nodes");
  visit("between_overhead", table.between.overhead, "s", "work of a rank for such a message");
  visit("between_bandwidth", table.between.bandwidth, "B/s", "messages between two nodes, all ranks together");
  visit("signal", table.signal, "s", "signal in shared memory");
  visit("step", table.step, "s", "any other step");
  visit("reduce", table.reduce, "B/s", "one rank adding, in caches, read and written");
  visit("copy", table.copy, "B/s", "one rank copying, in caches, read and written");
  visit("share", table.share, "B/s", "one rank reading what others on the node have just written");
  visit("memory", table.memory, "B/s", "all ranks of a node beyond the caches, read and written");
  visit("cache", table.cache, "B", "size of the caches of a rank");
  visit("processors", table.processors, "", "processors of a node");
  visit("turn", table.turn, "s", "additional time per wait for each rank that shares a processor");
}

}  // namespace distdl::comm
