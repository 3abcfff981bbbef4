// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include <distdl/app/watch/node_paces.hpp>
#include <distdl/base/median.hpp>

namespace distdl::app {
namespace {
constexpr std::size_t kMostPaces = 4096;  // a journal is not trusted
constexpr double kNoticeable = 1.1;       // below, somebody is always the slowest
}  // namespace

void NodePaces::add(const records::SharesKnown& shares) {
  if (shares.shares.empty()) return;
  const double middle = median(shares.microbatch_seconds);
  std::vector<double> computes;  // seconds per step
  for (std::size_t r = 0; r < shares.shares.size(); ++r)
    computes.push_back(static_cast<double>(shares.shares[r]) * shares.microbatch_seconds[r]);
  const double middle_compute = median(computes);
  if (nodes_.size() > kMostPaces) nodes_.clear();
  for (auto& [host, node] : nodes_) node.pace.is_present = false;
  std::map<std::string, double> excess;
  for (std::size_t r = 0; r < shares.hosts.size(); ++r) {
    auto& node = nodes_[shares.hosts[r]].pace;
    const double slowdown = middle > 0 ? shares.microbatch_seconds[r] / middle : 1;
    const bool is_first = !std::exchange(node.is_present, true);
    node.rows += is_first;
    node.ranks = is_first ? 1 : node.ranks + 1;
    node.slowdown = is_first ? slowdown : std::max(node.slowdown, slowdown);
    node.worst = std::max(node.worst, slowdown);
    excess[shares.hosts[r]] = std::max(excess[shares.hosts[r]], computes[r] - middle_compute);
  }
  for (const auto& [host, seconds] : excess) nodes_[host].excess_seconds += seconds;
  const auto slowest = std::max_element(shares.microbatch_seconds.begin(), shares.microbatch_seconds.end());
  if (auto& node = nodes_[shares.hosts[static_cast<std::size_t>(slowest - shares.microbatch_seconds.begin())]].pace;
      node.slowdown >= kNoticeable)
    ++node.slowest;
}

std::vector<NodePace> NodePaces::nodes(double step_seconds) const {
  std::vector<NodePace> sorted;
  for (const auto& [host, node] : nodes_) {
    auto& pace = sorted.emplace_back(node.pace);
    pace.host = host;
    if (step_seconds > 0 && pace.rows > 0) pace.cost = node.excess_seconds / pace.rows / step_seconds;
  }
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
    return a.is_present != b.is_present ? a.is_present : a.slowdown > b.slowdown;
  });
  return sorted;
}

}  // namespace distdl::app
