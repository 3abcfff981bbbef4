// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include <distdl/comm/algorithms/pairwise_sum.hpp>

namespace distdl::comm {
namespace {

constexpr std::size_t kShortBytes = std::size_t{8} << 10;  ///< up to here one hop beats less data
constexpr std::size_t kRoomBytes = std::size_t{32} << 20;  ///< for what arrives, however many ranks there are

std::vector<int> all_ranks(const Problem& problem) {
  std::vector<int> ranks(problem.size);
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

std::vector<Piece> all_slices(const ScheduleBuilder& build) {
  std::vector<Piece> slices;
  slices.reserve(static_cast<std::size_t>(build.size()));
  for (int q = 0; q < build.size(); ++q) slices.push_back(build.slice(q));
  return slices;
}

/// In elements; the same on all ranks. With the addends of all ranks a segment must fit into a room.
std::size_t segment_length(const ScheduleBuilder& build, std::size_t addends) {
  if (build.choice().segment == 0) return std::max<std::size_t>(1, build.whole().count);
  const std::size_t line = build.line();
  const std::size_t most = kRoomBytes / (build.problem().element * addends * line);
  return line * std::clamp<std::size_t>(segments_in(build.choice().segment, line), 1, std::max<std::size_t>(1, most));
}

}  // namespace

PairwiseSum::PairwiseSum(ScheduleBuilder& build)
    : PairwiseSum(build, all_ranks(build.problem()),
                  group_sums(build.problem(), all_ranks(build.problem()), Order::deterministic),
                  {{build.whole(), all_ranks(build.problem()), all_slices(build)}}) {}

PairwiseSum::PairwiseSum(ScheduleBuilder& build, std::vector<int> group_of, std::vector<GroupSum> sums,
                         std::vector<Partition> partitions)
    : build_(build),
      group_of_(std::move(group_of)),
      group_(group_of_[build.rank()]),
      groups_(*std::max_element(group_of_.begin(), group_of_.end()) + 1),
      sums_(std::move(sums)),
      partitions_(std::move(partitions)),
      length_(segment_length(build, sums_.size() * kSlots)) {
  for (std::size_t partition = 0; partition < partitions_.size(); ++partition) {
    std::size_t longest = 0;
    for (int g = 0; g < groups_; ++g) longest = std::max(longest, share(partition, g).count);
    const std::size_t length = is_short(partition) ? longest : std::min(longest, length_);
    if (length > 0) segments_ = std::max(segments_, segments_in(longest, length));
    room_ = std::max(room_, build.line() * segments_in(length, build.line()));
    if (partitions_[partition].carriers[group_] == build.rank()) carried_.push_back(partition);
  }
  const std::size_t rooms = slots() * carried_.size();
  arrivals_ = build.reserve_scratch(rooms * sums_.size() * room_);
  if (!has_output()) results_ = build.reserve_scratch(rooms * (wants_all(group_) ? groups_ : 1) * room_);
  for (int& each : gathers_) each = build.new_group();
  for (int& each : spreads_) each = build.new_group();
}

bool PairwiseSum::has_output() const {
  return build_.problem().collective != Collective::reduce || build_.problem().root == build_.rank();
}

std::size_t PairwiseSum::place_among_carried(std::size_t partition) const {
  return std::find(carried_.begin(), carried_.end(), partition) - carried_.begin();
}

bool PairwiseSum::wants_all(int group) const {
  switch (build_.problem().collective) {
    case Collective::all_reduce:
      return true;
    case Collective::reduce:
      return group == group_of_[build_.problem().root];
    default:
      return false;
  }
}

bool PairwiseSum::is_short(std::size_t partition) const {
  return build_.problem().collective != Collective::reduce_scatter &&
         partitions_[partition].piece.count * build_.problem().element <= kShortBytes;
}

Piece PairwiseSum::share(std::size_t partition, int group) const {
  const Partition& all = partitions_[partition];
  if (build_.problem().collective == Collective::reduce_scatter) return all.slices[group];
  if (is_short(partition)) return wants_all(group) ? all.piece : Piece{};
  return slice_of(all.piece, groups_, group, build_.line());
}

Piece PairwiseSum::owned(std::size_t partition, int group, std::size_t t) const {
  const Piece all = share(partition, group);
  if (is_short(partition)) return t == 0 ? all : Piece{};
  return segment_of(all, t, length_);
}

Block PairwiseSum::value(std::size_t partition, std::size_t k, int owner, std::size_t t) const {
  return build_.input(owned(partition, owner, t), sums_[k].terms.front().part);
}

void PairwiseSum::add_own(std::size_t partition, std::size_t k, std::size_t t, std::vector<Block>& blocks,
                          std::vector<LeafRange>& leaves) const {
  blocks.push_back(value(partition, k, group_, t));
  leaves.push_back(sums_[k].leaves);
}

std::vector<Block> PairwiseSum::targets(std::size_t partition, std::size_t t) const {
  return {place(partition, group_, t)};
}

Block PairwiseSum::place(std::size_t partition, int owner, std::size_t t) const {
  const Piece piece = owned(partition, owner, t);
  if (has_output()) return build_.output(piece);
  const int owners = wants_all(group_) ? groups_ : 1;
  const std::size_t slot = (t % kSlots * carried_.size() + place_among_carried(partition)) * owners + owner % owners;
  return build_.scratch({results_ + slot * room_, piece.count});
}

Block PairwiseSum::arrival(std::size_t partition, std::size_t k, std::size_t t) const {
  const std::size_t slot = (t % kSlots * carried_.size() + place_among_carried(partition)) * sums_.size() + k;
  return build_.scratch({arrivals_ + slot * room_, owned(partition, group_, t).count});
}

void PairwiseSum::gather(std::size_t t) {
  const int slot = gathers_[t % kSlots];
  std::vector<std::size_t> own;
  for (std::size_t k = 0; k < sums_.size(); ++k)
    if (sums_[k].group == group_) own.push_back(k);
  for (std::size_t partition : carried_) {
    const std::vector<int>& carriers = partitions_[partition].carriers;
    for (std::size_t k = 0; k < sums_.size(); ++k)
      if (sums_[k].group != group_) build_.receive(carriers[sums_[k].group], arrival(partition, k, t), slot);
    for (int i = 1; i < groups_; ++i) {
      const int owner = (group_ + i) % groups_;
      for (const std::size_t k : own) build_.send(carriers[owner], value(partition, k, owner, t), slot);
    }
  }
}

void PairwiseSum::sum_own(std::size_t partition, std::size_t t) {
  if (owned(partition, group_, t).count == 0) return;
  std::vector<Block> blocks;
  std::vector<LeafRange> leaves;
  for (std::size_t k = 0; k < sums_.size(); ++k) {
    if (sums_[k].group == group_) {
      add_own(partition, k, t, blocks, leaves);
    } else {
      blocks.push_back(arrival(partition, k, t));
      leaves.push_back(sums_[k].leaves);
    }
  }
  const auto reductions = reductions_of(leaves, leaves_of(build_.problem()), build_.choice().order);
  build_.reduce(operands(blocks, reductions), targets(partition, t), true);
}

// The result may lie where the operands do: their other pieces may be overwritten now, for the wait has also waited
// until the operands of this segment were sent.
void PairwiseSum::reduce(std::size_t t) {
  build_.wait(gathers_[t % kSlots]);
  for (std::size_t partition : carried_) sum_own(partition, t);
  spread(t);
}

void PairwiseSum::spread(std::size_t t) {
  const int slot = spreads_[t % kSlots];
  for (std::size_t partition : carried_) {
    if (is_short(partition)) continue;
    const std::vector<int>& carriers = partitions_[partition].carriers;
    for (int i = 1; i < groups_; ++i) {
      const int from = (group_ - i + groups_) % groups_, to = (group_ + i) % groups_;
      if (wants_all(group_)) build_.receive(carriers[from], place(partition, from, t), slot);
      if (wants_all(to)) build_.send(carriers[to], place(partition, group_, t), slot);
    }
  }
}

void PairwiseSum::run() {
  for (std::size_t t = 0; t < segments_ + 2 * kAhead; ++t) {
    if (t >= 2 * kAhead) {
      build_.wait(spreads_[(t - 2 * kAhead) % kSlots]);
      finish(t - 2 * kAhead);
    }
    if (t < segments_) {
      prepare(t);
      gather(t);
    }
    if (t >= kAhead && t < segments_ + kAhead) reduce(t - kAhead);
  }
}

}  // namespace distdl::comm
