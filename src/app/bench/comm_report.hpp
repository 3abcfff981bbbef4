// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include <distdl/app/bench/comm_operation.hpp>

namespace distdl::app {

/// How long something took: the median of each round, in the order of the rounds.
struct Rounds {
  std::vector<double> seconds;
  double median() const;
  double best() const;
  double worst() const;
};

/// A peer's side of a point; `refused` says why there is none.
struct PeerRounds {
  std::string name;
  std::string refused;
  Rounds rounds;
};

/// One operation at one size.
struct CommPoint {
  Operation operation = Operation::all_reduce;
  std::size_t bytes = 0;
  std::string algorithm;    ///< of distdl; empty for messages
  std::size_t segment = 0;  ///< elements
  Rounds limit, ours;
  std::vector<PeerRounds> peers;
};

struct CommReport {
  int ranks = 1, nodes = 1;
  std::vector<std::string> hosts;  ///< of each rank
  std::string type;
  double network_rate = 0;                                 ///< bytes/s; 0 on one node
  std::size_t largest = 0;                                 ///< size
  double memory_rate = 0;                                  ///< of a node where each rank works on `largest` bytes
  std::vector<std::pair<std::string, std::string>> peers;  ///< name and version
  std::vector<CommPoint> points;
};

/// Bytes per second: of the data, and over the busiest link (bus_factor()).
double algorithm_bandwidth(const CommPoint& point, double seconds);
double bus_bandwidth(const CommPoint& point, double seconds, int ranks);
/// What the measured limit would have taken over what we took, round by round, their median; 0 without a limit.
double fraction_of_limit(const CommPoint& point);
/// A peer's time over ours, round by round, so that a drift of the machine's speed cancels; ascending.
std::vector<double> ratios(const CommPoint& point, const PeerRounds& peer);

/// "64 KiB".
std::string size_text(std::size_t bytes);
std::string report_head(const CommReport& report);
std::string table_head(const CommReport& report);
std::string table_row(const CommReport& report, const CommPoint& point);
nlohmann::ordered_json to_json(const CommReport& report);

}  // namespace distdl::app
