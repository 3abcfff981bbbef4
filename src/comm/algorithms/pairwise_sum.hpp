// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

#include <distdl/comm/schedule/builder.hpp>

namespace distdl::comm {

/// A part of the vector, and in each group the rank that sums a piece of it.
struct Partition {
  Piece piece;
  std::vector<int> carriers;    ///< one rank per group
  std::vector<Piece> slices{};  ///< reduce_scatter: the pieces of the carriers, instead of equal shares of `piece`
};

/// Sums between groups of ranks in which every group communicates with every other one: the reduce-scatter and
/// all-gather of Thakur, Rabenseifner, Gropp, "Optimization of collective communication operations in MPICH", IJHPCA
/// 2005, in direct messages.
///
/// Within a partition each carrier owns a piece. It receives the other groups' sums of this piece, adds them along the
/// tree and sends the result to all ranks that need it. Pieces are processed in segments, and several segments are
/// under way at once. Additions thus overlap with messages, and the addends are still in the cache. Short partitions
/// are not divided: all ranks that need the result receive all sums and add them, in one hop instead of two.
///
/// In this class each rank is a group of its own. Derived classes do additional work within groups before and
/// afterwards.
class PairwiseSum {
 public:
  explicit PairwiseSum(ScheduleBuilder& build);
  virtual ~PairwiseSum() = default;
  virtual void run();

 protected:
  /// Segments that are gathered while one is added, and spread while the next one is.
  static constexpr std::size_t kAhead = 2;
  static constexpr std::size_t kSlots = kAhead + 1;

  /// `group_of` is the group of each rank, `sums` is in the order of additions, and `partitions` are those of all
  /// ranks.
  PairwiseSum(ScheduleBuilder& build, std::vector<int> group_of, std::vector<GroupSum> sums,
              std::vector<Partition> partitions);

  /// Segment t of the piece of a partition that a group owns.
  Piece owned(std::size_t partition, int group, std::size_t t) const;
  /// Whether the group needs the result of whole partitions.
  bool wants_all(int group) const;
  /// Whether all sums of a partition are sent to every rank that needs the result.
  bool is_short(std::size_t partition) const;
  const std::vector<Partition>& partitions() const { return partitions_; }
  /// The partitions that this rank carries, and the index of a partition among them.
  const std::vector<std::size_t>& carried() const { return carried_; }
  std::size_t place_among_carried(std::size_t partition) const;
  const std::vector<GroupSum>& sums() const { return sums_; }
  int groups() const { return groups_; }
  int group() const { return group_; }
  /// Space for a segment, in elements.
  std::size_t room() const { return room_; }
  bool has_output() const;
  /// Segments that need space at the same time.
  std::size_t slots() const { return std::min(kSlots, segments_); }

  /// Computes the group's sums of segment t, for value().
  virtual void prepare(std::size_t /*t*/) {}
  /// The place of this group's sum `k` for segment t of the piece of group `owner`.
  virtual Block value(std::size_t partition, std::size_t k, int owner, std::size_t t) const;
  /// The blocks that the own group adds to the sum of an own piece: sum `k`, or all its operands.
  virtual void add_own(std::size_t partition, std::size_t k, std::size_t t, std::vector<Block>& blocks,
                       std::vector<LeafRange>& leaves) const;
  /// The places that receive the sum of an own piece directly.
  virtual std::vector<Block> targets(std::size_t partition, std::size_t t) const;
  /// The place of a summed piece on this rank.
  virtual Block place(std::size_t partition, int owner, std::size_t t) const;
  /// Called when all pieces of segment t are in their places.
  virtual void finish(std::size_t /*t*/) {}

  ScheduleBuilder& build_;

 private:
  Piece share(std::size_t partition, int group) const;
  void gather(std::size_t t);
  void reduce(std::size_t t);
  void spread(std::size_t t);
  void sum_own(std::size_t partition, std::size_t t);
  Block arrival(std::size_t partition, std::size_t k, std::size_t t) const;

  std::vector<int> group_of_;
  int group_, groups_;
  std::vector<GroupSum> sums_;
  std::vector<Partition> partitions_;
  std::vector<std::size_t> carried_;
  std::size_t length_ = 1;
  std::size_t segments_ = 0;
  std::size_t room_ = 0;      ///< elements of the longest segment
  std::size_t arrivals_ = 0;  ///< offset in scratch memory: sums of other groups
  std::size_t results_ = 0;   ///< offset in scratch memory: results of a rank without output
  std::array<int, kSlots> gathers_{}, spreads_{};
};

}  // namespace distdl::comm
