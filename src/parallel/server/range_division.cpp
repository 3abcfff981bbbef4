// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <numeric>

#include <distdl/optim/shards.hpp>
#include <distdl/parallel/plan.hpp>
#include <distdl/parallel/server/range_division.hpp>

namespace distdl::parallel::server {
namespace {
constexpr int kUnits = 512;  ///< units per server into which the parameters are divided

std::vector<optim::Elements> ranges_of(const optim::Options& options, const tensor::ArenaLayout& layout, int servers,
                                       const std::vector<int>& weights) {
  std::vector<optim::Elements> ranges;
  for (const auto& slices : optim::shards_of(options, layout, servers, {}, weights).of)
    ranges.push_back(slices.front());
  return ranges;
}

/// A weight that is reduced makes all others count for more.
void limit_growth(std::vector<int>& weights) {
  const auto servers = static_cast<std::int64_t>(weights.size());
  while (true) {
    const auto sum = std::accumulate(weights.begin(), weights.end(), std::int64_t{0});
    const int most = std::max<int>(kUnits / 8, static_cast<int>((kMostGrowth * sum + servers - 1) / servers));
    if (std::ranges::all_of(weights, [most](int weight) { return weight <= most; })) return;
    for (int& weight : weights) weight = std::min(weight, most);
  }
}
}  // namespace

std::vector<optim::Elements> ranges_for(const optim::Options& options, const tensor::ArenaLayout& layout,
                                        const std::vector<double>& element_seconds) {
  const int servers = static_cast<int>(element_seconds.size());
  std::vector<double> speeds;
  speeds.reserve(element_seconds.size());
  for (const double seconds : element_seconds) speeds.push_back(1 / seconds);
  auto weights = proportional_shares(kUnits * servers, speeds);
  for (int& weight : weights) weight = std::max(weight, kUnits / 8);
  limit_growth(weights);
  return ranges_of(options, layout, servers, weights);
}

std::vector<optim::Elements> equal_ranges(const optim::Options& options, const tensor::ArenaLayout& layout,
                                          int servers) {
  return ranges_of(options, layout, servers, {});
}

double slowest_seconds(const std::vector<optim::Elements>& ranges, const std::vector<double>& element_seconds) {
  double slowest = 0;
  for (std::size_t i = 0; i < ranges.size(); ++i)
    slowest = std::max(slowest, static_cast<double>(ranges[i].count()) * element_seconds[i]);
  return slowest;
}

}  // namespace distdl::parallel::server
