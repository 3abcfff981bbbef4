// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include <distdl/comm/selection/cost_model.hpp>

namespace distdl::comm {
namespace {

/// Most `leaves(rank)` on one node.
template <class Leaves>
int busiest(const std::vector<int>& nodes, int node_count, Leaves&& leaves) {
  std::vector<int> count(static_cast<std::size_t>(node_count));
  for (int r = 0; r < static_cast<int>(nodes.size()); ++r)
    if (leaves(r)) ++count[static_cast<std::size_t>(nodes[static_cast<std::size_t>(r)])];
  return *std::max_element(count.begin(), count.end());
}

constexpr double kAllToAllBytes = 64 * 1024;

/// Returns the bytes of a vector, or of all slices together. Ranks have no information about each other's counts of an
/// all-to-all, unless all are equal, and must agree nevertheless: it counts as one of moderate size.
double total_bytes(const Problem& problem) {
  if (problem.collective == Collective::all_to_all)
    return problem.size * (problem.count ? static_cast<double>(problem.count * problem.element) : kAllToAllBytes);
  const double count = problem.counts.empty() ? static_cast<double>(problem.count)
                                              : std::accumulate(problem.counts.begin(), problem.counts.end(), 0.0);
  return count * static_cast<double>(problem.element);
}

/// Costs for a node with more ranks than processors. A waiting rank yields, and all others have had their turn before
/// the awaited ranks run. A working rank gets its share of the time.
CostTable crowded(CostTable costs, int ranks) {
  const double each = ranks / costs.processors;
  if (each <= 1) return costs;
  for (double* wait : {&costs.signal, &costs.within.latency, &costs.between.latency}) *wait += each * costs.turn;
  for (double* time : {&costs.step, &costs.within.overhead, &costs.between.overhead}) *time *= each;
  for (double* speed : {&costs.reduce, &costs.copy, &costs.share, &costs.within.bandwidth}) *speed /= each;
  return costs;
}

}  // namespace

Placement::Placement(const Problem& problem) : ranks_(problem.size) {
  // Nodes may have any numbers.
  std::vector<int> names(problem.nodes), nodes(problem.nodes);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  for (int& node : nodes) node = static_cast<int>(std::lower_bound(names.begin(), names.end(), node) - names.begin());
  nodes_ = std::max<int>(1, static_cast<int>(names.size()));
  if (nodes.empty()) return;
  widest_ = busiest(nodes, nodes_, [](int) { return true; });
  auto apart = [&](int a, int b) { return nodes[static_cast<std::size_t>(a)] != nodes[static_cast<std::size_t>(b)]; };
  for (int distance = 1; distance < ranks_; distance *= 2) {
    exchanging_.push_back(
        busiest(nodes, nodes_, [&](int r) { return (r ^ distance) < ranks_ && apart(r, r ^ distance); }));
    shifting_.push_back(busiest(nodes, nodes_, [&](int r) { return apart(r, (r + distance) % ranks_); }));
    climbing_.push_back(
        busiest(nodes, nodes_, [&](int r) { return r % (2 * distance) == distance && apart(r, r - distance); }));
  }
}

CostModel::CostModel(const Problem& problem, const Choice& choice, const Placement& placement, const CostTable& table)
    : collective(problem.collective),
      staged(choice.staged),
      at(placement),
      costs(crowded(table, placement.widest())),
      ranks(placement.ranks()),
      total(problem.collective == Collective::barrier ? 0 : total_bytes(problem)),
      slice(total / ranks),
      segment(static_cast<double>(choice.segment * problem.element)) {}

int CostModel::phases_out() const {
  return collective == Collective::reduce || collective == Collective::reduce_scatter ? 0 : 1;
}

double CostModel::hop(double bytes, int leaving) const {
  if (leaving == 0) return costs.within.latency + costs.within.overhead + near(bytes);
  return costs.between.latency + costs.between.overhead + bytes * leaving / costs.between.bandwidth;
}

double CostModel::near(double bytes, double span) const {
  const double alone = bytes / costs.within.bandwidth;
  return span <= costs.cache ? alone : std::max(alone, 4 * bytes * at.widest() / costs.memory);
}

double CostModel::everyone(double bytes) const {
  const double far = ranks - at.widest();
  double seconds = costs.within.latency + near((at.widest() - 1) * bytes);
  if (at.nodes() > 1)
    seconds = std::max(seconds, costs.between.latency + at.widest() * far * bytes / costs.between.bandwidth);
  return seconds + (at.widest() - 1) * costs.within.overhead + far * costs.between.overhead;
}

double CostModel::one_to_all(double bytes) const {
  const double far = ranks - at.widest();
  const double seconds = (at.nodes() > 1 ? costs.between.latency : costs.within.latency) +
                         near((at.widest() - 1) * bytes) + far * bytes / costs.between.bandwidth;
  return seconds + (at.widest() - 1) * costs.within.overhead + far * costs.between.overhead;
}

double CostModel::work(double touched, double span, double speed) const {
  if (span <= costs.cache) return touched / speed;
  return std::max(touched / speed, touched * at.widest() / costs.memory);
}

double CostModel::overlapped(double transfer, double adding, double bytes) const {
  if (segment <= 0 || segment >= bytes) return transfer + adding;
  const double pieces = bytes / segment;
  return std::max(transfer, adding) + std::min(transfer, adding) / pieces + pieces * (overhead() + 2 * costs.step);
}

double CostModel::touched(int local, double bytes) const {
  const double share = bytes / local;
  if (phases_out() == 0) return bytes + share;
  return collective == Collective::gather || collective == Collective::scatter ? 2 * share : 2 * bytes;
}

double CostModel::within_node(int local, double bytes, bool in_pieces) const {
  const double share = bytes / local, rest = bytes - share, touched = this->touched(local, bytes);
  double fetched = rest;
  if (collective == Collective::all_reduce) fetched = 2 * rest;
  if (collective == Collective::gather || collective == Collective::scatter) fetched = share;
  const double speed = phases_in() ? costs.reduce : costs.copy;
  // One signal when the memory may be used, one at the end; the first line of another rank's memory takes as long.
  if (!in_pieces) return 3 * costs.signal + 2 * local * costs.step + work(touched, touched, speed);
  const double pieces = std::max(1.0, bytes / static_cast<double>(kSharedBytes));
  return pieces * (2 * costs.signal + 3 * local * costs.step) + work(touched, touched, speed) +
         work(touched, touched, costs.copy) + fetch(fetched);
}

}  // namespace distdl::comm
