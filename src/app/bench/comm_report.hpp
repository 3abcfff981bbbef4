// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include <distdl/app/bench/comm_operation.hpp>

namespace distdl::app {

/// The median time of each round, in the order of the rounds.
struct Rounds {
  std::vector<double> seconds;
  double median() const;
  double best() const;
  double worst() const;
};

/// A peer's results for a point; `refused` is the reason if there are none.
struct PeerRounds {
  std::string name;
  std::string refused;
  Rounds rounds;
};

/// One operation at one size.
struct CommPoint {
  Operation operation = Operation::all_reduce;
  std::size_t bytes = 0;
  std::string algorithm;    ///< algorithm of distdl; empty for messages
  std::size_t segment = 0;  ///< elements
  Rounds limit, ours;
  std::vector<PeerRounds> peers;
};

struct CommReport {
  int ranks = 1, nodes = 1;
  std::vector<std::string> hosts;  ///< host of each rank
  std::string type;
  double network_rate = 0;                                 ///< bytes/s; 0 on one node
  std::size_t largest = 0;                                 ///< largest size
  double memory_rate = 0;                                  ///< memory rate of a node if each rank uses `largest` bytes
  std::vector<std::pair<std::string, std::string>> peers;  ///< name and version
  std::vector<CommPoint> points;
};

/// Bytes per second of the data, and over the busiest link (bus_factor()).
double algorithm_bandwidth(const CommPoint& point, double seconds);
double bus_bandwidth(const CommPoint& point, double seconds, int ranks);
/// The median over the rounds of the measured limit's time divided by distdl's time; 0 without a limit.
double fraction_of_limit(const CommPoint& point);
/// A peer's time divided by distdl's time for each round, so that drifts of the machine's speed cancel; ascending.
std::vector<double> ratios(const CommPoint& point, const PeerRounds& peer);

/// The size as text, such as "64 KiB".
std::string size_text(std::size_t bytes);
std::string report_head(const CommReport& report);
std::string table_head(const CommReport& report);
std::string table_row(const CommReport& report, const CommPoint& point);
nlohmann::ordered_json to_json(const CommReport& report);

}  // namespace distdl::app
