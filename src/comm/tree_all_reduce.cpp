// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include <distdl/base/errors.hpp>
#include <distdl/comm/tree_all_reduce.hpp>

namespace distdl::comm {
namespace {

constexpr std::size_t kSegment = 64 * 1024;  ///< floats; with its addends it stays in the second-level cache
constexpr std::size_t kShort = 2048;         ///< floats; up to here one hop beats less data
constexpr std::size_t kLine = 16;            ///< floats in a cache line: slices begin at multiples of it
constexpr int kAhead = 2;                    ///< segments gathered while one is added, and spread while the next is
constexpr int kSlots = kAhead + 1;

/// A piece of the vector, in floats.
struct Piece {
  std::size_t first = 0;
  std::size_t count = 0;
};

/// One partial sum of some rank.
struct Contribution {
  Rank rank;
  std::uint16_t number;  ///< among that rank's
};

class TreeAllReduce {
 public:
  TreeAllReduce(Fabric& fabric, const Operation& operation, const TreeSum& sum, const AddFunction& add,
                std::vector<float>& scratch)
      : fabric_(fabric), operation_(operation), sum_(sum), add_(add), scratch_(scratch) {
    std::vector<TreeNode> nodes;
    for (int r = 0; r < fabric.size(); ++r) {
      std::uint16_t number = 0;
      for (TreeNode node : cover(sum.ranges[r], sum.leaves)) {
        nodes.push_back(node);
        contributions_.push_back({Rank(r), number++});
      }
      if (Rank(r) == fabric.rank()) check_lengths(number);
    }
    plan_ = summation(nodes, sum.leaves);
    short_ = length() <= kShort;
    const std::size_t most = contributions_.size() * std::min(kSegment, length()) * kSlots;
    if (scratch_.size() < most) scratch_.resize(most);
    for (int i = 0; i < kSlots; ++i) {
      gathers_.emplace_back(fabric);
      spreads_.emplace_back(fabric);
    }
  }

  void run() {
    const int segments = static_cast<int>((slice_of(Rank(0)).count + kSegment - 1) / kSegment);
    for (int t = 0; t < segments + 2 * kAhead; ++t) {
      if (t >= 2 * kAhead) fabric_.wait(spreads_[(t - 2 * kAhead) % kSlots], operation_);
      if (t < segments) gather(t);
      if (t >= kAhead && t < segments + kAhead) reduce_and_spread(t - kAhead);
    }
  }

 private:
  std::size_t length() const { return sum_.result.size(); }

  void check_lengths(std::size_t expected) const {
    require(sum_.partials.size() == expected, "{}: {} partial sums for leaves that take {}", to_string(operation_),
            sum_.partials.size(), expected);
    for (auto partial : sum_.partials)
      require(partial.size() == length(), "{}: a partial sum of {} floats for a result of {}", to_string(operation_),
              partial.size(), length());
  }

  /// Rank 0's is the longest.
  Piece slice_of(Rank owner) const {
    if (short_) return {0, length()};
    const std::size_t lines = (length() + kLine - 1) / kLine;
    const std::size_t ranks = fabric_.size();
    const std::size_t each = (lines + ranks - 1) / ranks * kLine;
    const std::size_t first = std::min(length(), each * owner.value);
    return {first, std::min(each, length() - first)};
  }

  Piece segment_of(Rank owner, int segment) const {
    const Piece slice = slice_of(owner);
    const std::size_t skipped = std::min(slice.count, segment * kSegment);
    return {slice.first + skipped, std::min(kSegment, slice.count - skipped)};
  }

  static std::span<float> cut(std::span<float> whole, Piece piece) { return whole.subspan(piece.first, piece.count); }

  /// This rank's own partial sum, or where that of another arrives.
  std::span<float> value_of(std::size_t contribution, Piece piece, int segment) const {
    const auto [rank, number] = contributions_[contribution];
    if (rank == fabric_.rank()) return cut(sum_.partials[number], piece);
    const std::size_t room = std::min(kSegment, length());
    const std::size_t slot = segment % kSlots * contributions_.size() + contribution;
    return std::span(scratch_).subspan(slot * room, piece.count);
  }

  /// Between two ranks messages are matched in order: here and in spread(), both post a segment's in the same one.
  void gather(int segment) {
    Batch& batch = gathers_[segment % kSlots];
    const Piece own = segment_of(fabric_.rank(), segment);
    for (std::size_t c = 0; c < contributions_.size() && own.count > 0; ++c)
      if (contributions_[c].rank != fabric_.rank())
        fabric_.receive(batch, std::as_writable_bytes(value_of(c, own, segment)), contributions_[c].rank,
                        {.number = operation_.sequence});
    for_each_peer([&](Rank peer) {
      const Piece piece = segment_of(peer, segment);
      for (std::size_t k = 0; k < sum_.partials.size() && piece.count > 0; ++k)
        fabric_.send(batch, std::as_bytes(cut(sum_.partials[k], piece)), peer, {.number = operation_.sequence});
    });
  }

  void reduce_and_spread(int segment) {
    fabric_.wait(gathers_[segment % kSlots], operation_);
    const Piece own = segment_of(fabric_.rank(), segment);
    for (auto [into, from] : plan_.additions) add_(value_of(into, own, segment), value_of(from, own, segment));
    const auto total = value_of(plan_.result, own, segment);
    const auto place = cut(sum_.result, own);
    if (total.data() != place.data() && own.count > 0) std::memcpy(place.data(), total.data(), total.size_bytes());
    if (!short_) spread(segment, place);
  }

  // The result may be the first partial sum: its other slices may be overwritten now, for wait() above has also waited
  // until this rank's partial sums of this segment were sent.
  void spread(int segment, std::span<float> own) {
    Batch& batch = spreads_[segment % kSlots];
    for_each_peer([&](Rank peer) {
      const auto place = cut(sum_.result, segment_of(peer, segment));
      if (!place.empty()) fabric_.receive(batch, std::as_writable_bytes(place), peer, {.number = operation_.sequence});
    });
    for_each_peer([&](Rank peer) {
      if (!own.empty()) fabric_.send(batch, std::as_bytes(own), peer, {.number = operation_.sequence});
    });
  }

  /// Each rank begins with the next higher one, so that not all send to the same.
  template <class Function>
  void for_each_peer(Function function) const {
    const int size = fabric_.size();
    for (int step = 1; step < size; ++step) function(Rank((fabric_.rank().value + step) % size));
  }

  Fabric& fabric_;
  Operation operation_;
  TreeSum sum_;
  const AddFunction& add_;
  std::vector<float>& scratch_;
  std::vector<Contribution> contributions_;  ///< in the order of plan_'s values
  Summation plan_;
  bool short_ = false;
  std::deque<Batch> gathers_;  ///< after scratch_: destroyed, and so cancelled, before its memory could go
  std::deque<Batch> spreads_;
};

}  // namespace

void tree_all_reduce(Fabric& fabric, const Operation& operation, const TreeSum& sum, const AddFunction& add,
                     std::vector<float>& scratch) {
  require(sum.ranges.size() == static_cast<std::size_t>(fabric.size()), "{}: {} leaf ranges for {} ranks",
          to_string(operation), sum.ranges.size(), fabric.size());
  TreeAllReduce(fabric, operation, sum, add, scratch).run();
}

}  // namespace distdl::comm
