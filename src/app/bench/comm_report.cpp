// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <set>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <distdl/app/bench/comm_report.hpp>
#include <distdl/base/median.hpp>

namespace distdl::app {
namespace {
/// Ratios of what was measured in the same rounds.
std::vector<double> in_turn(const Rounds& others, const Rounds& ours) {
  std::vector<double> all;
  for (std::size_t i = 0; i < std::min(others.seconds.size(), ours.seconds.size()); ++i)
    all.push_back(others.seconds[i] / ours.seconds[i]);
  return all;
}

std::string time_text(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.2f} us", seconds * 1e6);
  return seconds < 1 ? fmt::format("{:.2f} ms", seconds * 1e3) : fmt::format("{:.2f} s", seconds);
}

nlohmann::ordered_json times_json(const CommPoint& point, const Rounds& rounds, int ranks) {
  const double median = rounds.median();
  return {{"median_s", median},
          {"best_s", rounds.best()},
          {"worst_s", rounds.worst()},
          {"rounds_s", rounds.seconds},
          {"algorithm_bandwidth", algorithm_bandwidth(point, median)},
          {"bus_bandwidth", bus_bandwidth(point, median, ranks)}};
}
}  // namespace

double Rounds::median() const {
  return distdl::median(seconds);
}
double Rounds::best() const {
  return seconds.empty() ? 0 : *std::min_element(seconds.begin(), seconds.end());
}
double Rounds::worst() const {
  return seconds.empty() ? 0 : *std::max_element(seconds.begin(), seconds.end());
}

double algorithm_bandwidth(const CommPoint& point, double seconds) {
  return seconds > 0 ? static_cast<double>(point.bytes) / seconds : 0;
}

double bus_bandwidth(const CommPoint& point, double seconds, int ranks) {
  return algorithm_bandwidth(point, seconds) * bus_factor(point.operation, ranks);
}

double fraction_of_limit(const CommPoint& point) {
  return median(in_turn(point.limit, point.ours));
}

std::vector<double> ratios(const CommPoint& point, const PeerRounds& peer) {
  auto all = in_turn(peer.rounds, point.ours);
  std::sort(all.begin(), all.end());
  return all;
}

std::string size_text(std::size_t bytes) {
  static constexpr std::array kUnits = {"B", "KiB", "MiB", "GiB"};
  std::size_t unit = 0;
  while (unit + 1 < kUnits.size() && bytes >= 1024 && bytes % 1024 == 0) {
    bytes /= 1024;
    ++unit;
  }
  return fmt::format("{} {}", bytes, kUnits[unit]);
}

std::string report_head(const CommReport& report) {
  const std::set<std::string> hosts(report.hosts.begin(), report.hosts.end());
  auto text = fmt::format("{} ranks on {} ({}), {}; memory {:.1f} GB/s per node at {}", report.ranks,
                          report.nodes == 1 ? "1 node" : fmt::format("{} nodes", report.nodes), fmt::join(hosts, ", "),
                          report.type, report.memory_rate / 1e9, size_text(report.largest));
  if (report.network_rate > 0) text += fmt::format(", network {:.3f} GB/s each way", report.network_rate / 1e9);
  for (const auto& [name, version] : report.peers) text += fmt::format("\n{}: {}", name, version);
  return text + "\n";
}

std::string table_head(const CommReport& report) {
  auto text = fmt::format("{:<15}{:>9}{:>12}{:>12}{:>12}{:>10}{:>10}{:>7}  {:<20}", "operation", "size", "median",
                          "best", "worst", "alg GB/s", "bus GB/s", "limit", "algorithm");
  for (const auto& [name, version] : report.peers) text += fmt::format("  {:>34}", name);
  return text + "\n";
}

std::string table_row(const CommReport& report, const CommPoint& point) {
  const double typical = point.ours.median();
  auto text =
      fmt::format("{:<15}{:>9}{:>12}{:>12}{:>12}{:>10.3f}{:>10.3f}{:>6.0f}%  {:<20}", name_of(point.operation),
                  size_text(point.bytes), time_text(typical), time_text(point.ours.best()),
                  time_text(point.ours.worst()), algorithm_bandwidth(point, typical) / 1e9,
                  bus_bandwidth(point, typical, report.ranks) / 1e9, 100 * fraction_of_limit(point), point.algorithm);
  for (const auto& peer : point.peers) {
    const auto ratio = ratios(point, peer);
    text += fmt::format("  {:>34}", ratio.empty()
                                        ? peer.refused
                                        : fmt::format("{} = {:.2f}x ({:.2f}-{:.2f})", time_text(peer.rounds.median()),
                                                      median(ratio), ratio.front(), ratio.back()));
  }
  return text + "\n";
}

nlohmann::ordered_json to_json(const CommReport& report) {
  nlohmann::ordered_json document{{"what", "distdl bench comm"},
                                  {"version", 1},
                                  {"ranks", report.ranks},
                                  {"nodes", report.nodes},
                                  {"hosts", report.hosts},
                                  {"type", report.type},
                                  {"largest_bytes", report.largest},
                                  {"memory_bytes_per_s", report.memory_rate},
                                  {"network_bytes_per_s", report.network_rate},
                                  {"points", nlohmann::ordered_json::array()}};
  document["peers"] = nlohmann::ordered_json::object();
  for (const auto& [name, version] : report.peers) document["peers"][name] = version;
  for (const auto& point : report.points) {
    nlohmann::ordered_json row{{"operation", name_of(point.operation)}, {"bytes", point.bytes}, {"correct", true}};
    row["distdl"] = times_json(point, point.ours, report.ranks);
    row["distdl"]["fraction_of_limit"] = fraction_of_limit(point);
    row["distdl"]["limit_s"] = point.limit.median();
    row["distdl"]["algorithm"] = point.algorithm;
    row["distdl"]["segment"] = point.segment;
    for (const auto& peer : point.peers) {
      const auto ratio = ratios(point, peer);
      if (ratio.empty()) {
        row["peers"][peer.name] = {{"refused", peer.refused}};
        continue;
      }
      auto side = times_json(point, peer.rounds, report.ranks);
      side["ratio"] = {{"median", median(ratio)}, {"min", ratio.front()}, {"max", ratio.back()}};
      row["peers"][peer.name] = side;
    }
    document["points"].push_back(row);
  }
  return document;
}

}  // namespace distdl::app
