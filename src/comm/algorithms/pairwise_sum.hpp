// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

#include <distdl/comm/schedule/builder.hpp>

namespace distdl::comm {

/// A part of the vector and, in each group of ranks, the rank that sums some of it with those of the other groups.
struct Partition {
  Piece piece;
  std::vector<int> carriers;    ///< of each group
  std::vector<Piece> slices{};  ///< reduce_scatter: what each of them owns, in place of equal shares of `piece`
};

/// Sums between groups of ranks, everyone with everyone: the reduce-scatter and all-gather of Thakur, Rabenseifner,
/// Gropp, "Optimization of collective communication operations in MPICH", IJHPCA 2005, in direct messages.
///
/// Within a partition each carrier owns a piece: it gets the other groups' sums of this piece, adds them along the tree
/// and sends the result to all who want it. This goes through the pieces in segments, of which several are under way at
/// once, so that adding overlaps with sending and the addends are still in the cache. Short partitions are not cut: all
/// who want the result get all sums and add them, in one hop instead of two.
///
/// Here each rank is a group of its own; classes derived from this one do something within groups before and after.
class PairwiseSum {
 public:
  explicit PairwiseSum(ScheduleBuilder& build);
  virtual ~PairwiseSum() = default;
  virtual void run();

 protected:
  static constexpr std::size_t kAhead = 2;  ///< segments gathered while one is added, and spread while the next is
  static constexpr std::size_t kSlots = kAhead + 1;

  /// `group_of` each rank; `sums` in the order in which they are to be added; the partitions of all ranks.
  PairwiseSum(ScheduleBuilder& build, std::vector<int> group_of, std::vector<GroupSum> sums,
              std::vector<Partition> partitions);

  /// Segment t of what a group owns of a partition.
  Piece owned(std::size_t partition, int group, std::size_t t) const;
  /// Does the group need the result of whole partitions?
  bool wants_all(int group) const;
  /// Are all sums of a partition sent to everyone who wants the result?
  bool is_short(std::size_t partition) const;
  const std::vector<Partition>& partitions() const { return partitions_; }
  /// Partitions that this rank carries, and a partition's place among them.
  const std::vector<std::size_t>& carried() const { return carried_; }
  std::size_t place_among_carried(std::size_t partition) const;
  const std::vector<GroupSum>& sums() const { return sums_; }
  int groups() const { return groups_; }
  int group() const { return group_; }
  /// Room for a segment, in elements.
  std::size_t room() const { return room_; }
  bool has_output() const;
  /// Segments that need room at a time.
  std::size_t slots() const { return std::min(kSlots, segments_); }

  /// Adds up the group's sums of segment t, for value().
  virtual void prepare(std::size_t /*t*/) {}
  /// Where this group's sum `k` of a piece of segment t lies that group `owner` owns.
  virtual Block value(std::size_t partition, std::size_t k, int owner, std::size_t t) const;
  /// What the own group adds to the sum of an own piece: sum `k`, or all that it is made of.
  virtual void add_own(std::size_t partition, std::size_t k, std::size_t t, std::vector<Block>& blocks,
                       std::vector<LeafRange>& leaves) const;
  /// Who gets the sum of an own piece at once.
  virtual std::vector<Block> targets(std::size_t partition, std::size_t t) const;
  /// Where a summed piece lies at this rank.
  virtual Block place(std::size_t partition, int owner, std::size_t t) const;
  /// All pieces of segment t lie in their places.
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
  std::size_t arrivals_ = 0;  ///< in scratch: sums of other groups
  std::size_t results_ = 0;   ///< in scratch: places of a rank without output
  std::array<int, kSlots> gathers_{}, spreads_{};
};

}  // namespace distdl::comm
