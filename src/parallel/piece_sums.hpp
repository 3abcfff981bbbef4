// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include <distdl/comm/communicator.hpp>
#include <distdl/kernels/backend.hpp>
#include <distdl/optim/arena_ranges.hpp>

namespace distdl::parallel {

/// Elements of a whole arena that a rank has, from element `at` of its own arena on.
struct OwnedElements {
  optim::Elements elements;
  std::size_t at = 0;
};
/// Returns the elements that are also among these slices of the own arena.
std::vector<OwnedElements> within(const std::vector<OwnedElements>& held, const std::vector<optim::Elements>& slices);

/// One term for each element of an arena.
class Terms {
 public:
  virtual ~Terms() = default;
  /// The sum over each of these ranges, none longer than kernels::kSummedPart, in the order of
  /// Backend::sums_of_squares().
  virtual void add_up(std::span<const kernels::ArenaRange> ranges, std::span<double> sums);
  /// The terms of a range.
  virtual void list(const kernels::ArenaRange& range, std::span<double> terms) = 0;
};

/// The squares of values in a backend's memory.
class Squares final : public Terms {
 public:
  /// The references must outlive this object.
  Squares(kernels::Backend& backend, const float* values) : backend_(backend), values_(values) {}
  void add_up(std::span<const kernels::ArenaRange> ranges, std::span<double> sums) override;
  void list(const kernels::ArenaRange& range, std::span<double> terms) override;

 private:
  kernels::Backend& backend_;
  const float* values_;
};

/// Sums over ranges of the arena of a whole model, of which each rank has some elements. The bits are those that one
/// rank with all elements would get. A range is summed in pieces. If the elements of a piece lie on several ranks, the
/// rank with the first of them sums the piece, and the others send it their terms; all ranks get the sum of each piece.
class PieceSums {
 public:
  /// Collective. `ranges`: ranges of the whole arena, ascending. `held`: the elements of it on this rank; each element
  /// of a range is on one of `ranks`, which must outlive this object. Throws comm::PeerLost.
  PieceSums(std::vector<kernels::ArenaRange> ranges, const std::vector<OwnedElements>& held, comm::Communicator& ranks);

  comm::Communicator& ranks() const { return ranks_; }
  /// Count of numbers to exchange: the same on all ranks.
  std::size_t count() const { return count_; }
  /// Collective. Takes the term of each element of this rank once. Writes the numbers of the pieces that this rank
  /// sums, and 0 for the others. Throws comm::PeerLost.
  void write(Terms& terms, std::span<double> numbers);
  /// Returns the sum of each range, from the sums of all ranks' numbers.
  std::vector<double> sums(std::span<const double> numbers) const;
  const std::vector<kernels::ArenaRange>& ranges() const { return ranges_; }

 private:
  /// Elements of a piece on several ranks that one of them has.
  struct Fragment {
    int rank = 0;
    kernels::ArenaRange range;  ///< range in the rank's own arena, if that is this one
    std::size_t at = 0;         ///< else its place in what that rank sends
  };
  struct Shared {
    std::size_t number = 0;  ///< number of the piece
    std::vector<Fragment> fragments;
  };
  struct Holder {
    OwnedElements held;
    int rank = 0;
  };
  std::vector<Holder> find_holders(const std::vector<OwnedElements>& held);
  void plan(std::size_t number, const optim::Elements& piece, const kernels::ArenaRange& range,
            std::span<const Holder> holders);
  void share(std::size_t number, std::vector<Fragment> fragments);
  /// The terms that the other ranks have sent.
  std::vector<double> exchange(Terms& terms);

  std::vector<kernels::ArenaRange> ranges_;
  comm::Communicator& ranks_;
  std::size_t count_ = 0;
  std::vector<kernels::ArenaRange> own_;                ///< whole pieces, in this rank's arena
  std::vector<std::size_t> own_numbers_;                ///< numbers of those pieces
  std::vector<Shared> shared_;                          ///< pieces on several ranks that this rank sums
  std::vector<std::vector<kernels::ArenaRange>> sent_;  ///< for each rank, the ranges whose terms go to it
  std::vector<std::size_t> send_counts_, receive_counts_;
  bool exchanges_ = false;  ///< some rank sends terms
};

}  // namespace distdl::parallel
