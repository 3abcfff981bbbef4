// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

#include <distdl/comm/algorithms/doubling_sum.hpp>
#include <distdl/comm/algorithms/node_sum.hpp>

namespace distdl::comm {
namespace {

constexpr std::size_t kPartitionBytes = 4096;  ///< a partition is worth a rank from here on
constexpr int kFewNodes = 4;                   ///< up to here one hop to everyone beats doubling

/// One per local rank; that of reduce_scatter holds the slices of its carriers. Nodes with fewer ranks than partitions
/// only bring their sums to the others.
std::vector<Partition> slice_partitions(const ScheduleBuilder& build, const Nodes& nodes) {
  std::vector<Partition> partitions(nodes.widest());
  for (std::size_t l = 0; l < partitions.size(); ++l)
    for (const auto& ranks : nodes.ranks) {
      partitions[l].carriers.push_back(ranks[l % ranks.size()]);
      partitions[l].slices.push_back(l < ranks.size() ? build.slice(ranks[l]) : Piece{});
    }
  return partitions;
}

std::vector<Partition> partitions_of(const ScheduleBuilder& build, const Nodes& nodes) {
  if (build.problem().collective == Collective::reduce_scatter) return slice_partitions(build, nodes);
  std::size_t most = nodes.widest();
  most = std::clamp<std::size_t>(build.whole().count * build.problem().element / kPartitionBytes, 1, most);
  std::vector<Partition> partitions;
  for (std::size_t l = 0; l < most; ++l) {
    partitions.push_back({slice_of(build.whole(), most, l, build.line()), {}});
    for (const auto& ranks : nodes.ranks) partitions.back().carriers.push_back(ranks[l % ranks.size()]);
  }
  return partitions;
}

}  // namespace

Nodes::Nodes(const Problem& problem) {
  std::map<int, int> number;
  for (int r = 0; r < problem.size; ++r) {
    const auto [node, is_new] = number.try_emplace(problem.nodes[r], static_cast<int>(ranks.size()));
    if (is_new) ranks.emplace_back();
    of.push_back(node->second);
    ranks[node->second].push_back(r);
  }
}

std::size_t Nodes::widest() const {
  std::size_t most = 0;
  for (const auto& each : ranks) most = std::max(most, each.size());
  return most;
}

NodeSum::NodeSum(ScheduleBuilder& build, const Nodes& nodes)
    : PairwiseSum(build, nodes.of, group_sums(build.problem(), nodes.of, build.choice().order),
                  partitions_of(build, nodes)),
      ranks_(nodes.ranks[nodes.of[build.rank()]]) {
  for (std::size_t k = 0; k < sums().size(); ++k)
    if (sums()[k].group == group()) own_.push_back(k);
  prepared_ = build.reserve_scratch(slots() * carried().size() * own_.size() * groups() * room());
}

void NodeSum::run() {
  if (!can_double()) return PairwiseSum::run();
  prepare(0);
  for (std::size_t partition : carried()) double_partition(partition);
  finish(0);
}

void NodeSum::double_partition(std::size_t partition) {
  const bool fixed = build_.choice().order == Order::deterministic;
  std::vector<int> members;
  std::vector<LeafRange> leaves;
  for (const GroupSum& sum : sums()) {
    leaves.push_back(fixed ? sum.leaves : LeafRange{static_cast<int>(leaves.size()), 1});
    members.push_back(partitions()[partition].carriers[sum.group]);
  }
  DoublingSum sum(build_, members, leaves, fixed ? leaves_of(build_.problem()) : groups(),
                  partitions()[partition].piece.count);
  sum.run(value(partition, own_.front(), group(), 0), targets(partition, 0));
}

bool NodeSum::can_double() const {
  if (build_.problem().collective != Collective::all_reduce || groups() <= kFewNodes) return false;
  for (std::size_t partition = 0; partition < partitions().size(); ++partition)
    if (!is_short(partition)) return false;
  std::vector<int> sums_of(groups(), 0);
  for (const GroupSum& sum : sums()) ++sums_of[sum.group];
  return std::all_of(sums_of.begin(), sums_of.end(), [](int each) { return each == 1; });
}

bool NodeSum::others_want_all() const {
  for (int g = 0; g < groups(); ++g)
    if (g != group() && wants_all(g)) return true;
  return false;
}

bool NodeSum::is_operand(std::size_t k) const {
  return sums()[k].terms.size() == 1 && sums()[k].terms.front().rank == build_.rank();
}

Block NodeSum::prepared(std::size_t partition, std::size_t k, int owner, std::size_t t) const {
  const std::size_t number = std::find(own_.begin(), own_.end(), k) - own_.begin();
  const std::size_t slot = (t % kSlots * carried().size() + place_among_carried(partition)) * own_.size() + number;
  const Piece piece = owned(partition, owner, t);
  return build_.scratch({prepared_ + (slot * groups() + (is_short(partition) ? 0 : owner)) * room(), piece.count});
}

Block NodeSum::value(std::size_t partition, std::size_t k, int owner, std::size_t t) const {
  return is_operand(k) ? build_.input(owned(partition, owner, t), sums()[k].terms.front().part)
                       : prepared(partition, k, owner, t);
}

std::vector<int> NodeSum::owners(std::size_t partition) const {
  std::vector<int> all;
  for (int g = 0; g < groups() && !(is_short(partition) && !all.empty()); ++g)
    if (owned(partition, g, 0).count > 0) all.push_back(g);
  return all;
}

std::vector<std::uint16_t> NodeSum::reductions_within(const GroupSum& sum) const {
  std::vector<LeafRange> leaves;
  for (const Term& term : sum.terms) leaves.push_back(term.leaves);
  return reductions_of(leaves, leaves_of(build_.problem()), build_.choice().order);
}

}  // namespace distdl::comm
