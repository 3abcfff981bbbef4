// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <distdl/app/runs/share_report.hpp>
#include <distdl/base/median.hpp>

namespace distdl::app {
namespace {
using ShareJson = nlohmann::ordered_json;

/// Share of the ranks or servers of one node.
struct NodeShare {
  std::string host;
  std::int64_t units = 0;
  double speed = 1;  ///< speed of its slowest rank or server; the fastest of all has 1
};

/// Names of an owner and of the units that it has, and their keys in JSON.
struct Unit {
  const char *owner, *units;
  const char *count, *seconds;  ///< keys in JSON
};
constexpr Unit kMicrobatches{"rank", "microbatches", "microbatches", "microbatch_seconds"};
constexpr Unit kParameters{"server", "parameters", "elements", "element_seconds"};

double speed_of(const observe::ShareSummary& shares, std::size_t rank) {
  const double fastest = *std::min_element(shares.microbatch_seconds.begin(), shares.microbatch_seconds.end());
  const double own = shares.microbatch_seconds[rank];
  return own > 0 ? fastest / own : 1;
}

/// The slowest node first.
std::vector<NodeShare> shares_of_nodes(const observe::ShareSummary& shares) {
  std::vector<NodeShare> nodes;
  for (std::size_t r = 0; r < shares.hosts.size() && !shares.microbatch_seconds.empty(); ++r) {
    auto node =
        std::find_if(nodes.begin(), nodes.end(), [&](const auto& each) { return each.host == shares.hosts[r]; });
    if (node == nodes.end()) node = nodes.insert(node, NodeShare{shares.hosts[r]});
    node->units += shares.shares[r];
    node->speed = std::min(node->speed, speed_of(shares, r));
  }
  std::stable_sort(nodes.begin(), nodes.end(), [](const auto& a, const auto& b) { return a.speed < b.speed; });
  return nodes;
}

struct SlowestRank {
  std::size_t rank = 0;
  double seconds = 0, median_of_others = 0;  ///< time for a microbatch
};

/// Nothing where there is no other rank, or nothing was measured.
std::optional<SlowestRank> slowest_of(const observe::ShareSummary& shares) {
  std::vector<double> others = shares.microbatch_seconds;
  if (others.size() < 2) return std::nullopt;
  const auto slowest = std::max_element(others.begin(), others.end());
  SlowestRank found{static_cast<std::size_t>(slowest - others.begin()), *slowest};
  others.erase(slowest);
  found.median_of_others = median(std::move(others));
  return found.median_of_others > 0 ? std::optional(found) : std::nullopt;
}

/// Ranks that were suspended, those with the most measurements first.
std::vector<std::size_t> suspended_ranks(const observe::DisturbedSummary& disturbed) {
  std::vector<std::size_t> ranks;
  for (std::size_t r = 0; r < disturbed.measurements.size(); ++r)
    if (disturbed.measurements[r] > 0) ranks.push_back(r);
  std::stable_sort(ranks.begin(), ranks.end(),
                   [&](std::size_t a, std::size_t b) { return disturbed.measurements[a] > disturbed.measurements[b]; });
  return ranks;
}

std::string text_of(const observe::ShareSummary& shares, const Unit& unit) {
  constexpr std::size_t kMostShown = 8;
  const auto nodes = shares_of_nodes(shares);
  std::string line;
  for (std::size_t i = 0; i < std::min(nodes.size(), kMostShown); ++i)
    line += i > 0 ? fmt::format(", {} {} at {:.2f}", nodes[i].host, nodes[i].units, nodes[i].speed)
                  : fmt::format("{} {} {} at speed {:.2f}", nodes[i].host, nodes[i].units, unit.units, nodes[i].speed);
  if (nodes.size() > kMostShown) line += fmt::format(", {} faster nodes", nodes.size() - kMostShown);
  if (shares.moves > 0) line += fmt::format("; moved {} time{}", shares.moves, shares.moves == 1 ? "" : "s");
  if (shares.back > 0) line += fmt::format(", {} of them back, the last because {}", shares.back, shares.went_back);
  return line;
}

ShareJson json_of(const observe::ShareSummary& shares, const Unit& unit) {
  if (shares.shares.empty()) return nullptr;
  auto owners = ShareJson::array();
  for (std::size_t r = 0; r < shares.shares.size(); ++r)
    owners.push_back({{unit.owner, r},
                      {"host", shares.hosts[r]},
                      {unit.count, shares.shares[r]},
                      {unit.seconds, shares.microbatch_seconds[r]},
                      {"speed", speed_of(shares, r)}});
  return {{"time", shares.time},
          {"moves", shares.moves},
          {"moves_back", shares.back},
          {"went_back", shares.went_back.empty() ? ShareJson(nullptr) : ShareJson(shares.went_back)},
          {fmt::format("{}s", unit.owner), std::move(owners)}};
}
}  // namespace

std::string shares_text(const observe::ShareSummary& shares) {
  return text_of(shares, kMicrobatches);
}

ShareJson shares_json(const observe::ShareSummary& shares) {
  return json_of(shares, kMicrobatches);
}

std::string ranges_text(const observe::ShareSummary& ranges) {
  return text_of(ranges, kParameters);
}

ShareJson ranges_json(const observe::ShareSummary& ranges) {
  return json_of(ranges, kParameters);
}

std::string slowest_text(const observe::ShareSummary& shares, double step_seconds) {
  const auto slowest = slowest_of(shares);
  if (!slowest) return "";
  auto text =
      fmt::format("rank {} ({}): {:.3g} s for a microbatch, {:.2f} times the median of the others", slowest->rank,
                  shares.hosts[slowest->rank], slowest->seconds, slowest->seconds / slowest->median_of_others);
  const double longer =
      static_cast<double>(shares.shares[slowest->rank]) * (slowest->seconds - slowest->median_of_others);
  return step_seconds > 0 ? text + fmt::format(", or {:.1f}% of a step", 100 * longer / step_seconds) : text;
}

ShareJson slowest_json(const observe::ShareSummary& shares) {
  const auto slowest = slowest_of(shares);
  if (!slowest) return nullptr;
  return {{"rank", slowest->rank},
          {"host", shares.hosts[slowest->rank]},
          {"microbatch_seconds", slowest->seconds},
          {"median_of_others_seconds", slowest->median_of_others},
          {"times_slower", slowest->seconds / slowest->median_of_others}};
}

std::string disturbed_text(const observe::DisturbedSummary& disturbed) {
  constexpr std::size_t kMostShown = 8;
  const auto ranks = suspended_ranks(disturbed);
  if (ranks.empty()) return "";
  std::string line = "measurements left out: ";
  for (std::size_t i = 0; i < std::min(ranks.size(), kMostShown); ++i)
    line += fmt::format("{}{} of rank {} ({})", i > 0 ? ", " : "", disturbed.measurements[ranks[i]], ranks[i],
                        disturbed.hosts[ranks[i]]);
  if (ranks.size() > kMostShown) line += fmt::format(", {} more ranks", ranks.size() - kMostShown);
  return line;
}

ShareJson disturbed_json(const observe::DisturbedSummary& disturbed) {
  auto rows = ShareJson::array();
  for (const std::size_t rank : suspended_ranks(disturbed))
    rows.push_back({{"rank", rank}, {"host", disturbed.hosts[rank]}, {"measurements", disturbed.measurements[rank]}});
  return rows;
}

}  // namespace distdl::app
