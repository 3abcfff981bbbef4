// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include <distdl/comm/communicator.hpp>
#include <distdl/kernels/backend.hpp>
#include <distdl/parallel/bucket_sums.hpp>
#include <distdl/parallel/buckets.hpp>
#include <distdl/parallel/plan.hpp>
#include <distdl/tensor/buffer.hpp>

namespace distdl::parallel {

/// The most arenas that a rank with `range` has in use while it sums its microbatches' gradients.
std::size_t arenas_for(comm::LeafRange range, int microbatches);

/// Sums the gradient arenas of all microbatches of a step along the fixed tree: first those of this rank, as they are
/// computed, in at most log2(microbatches) + 2 arenas, then over the ranks, bucket by bucket. Call allocate() once. In
/// each step, for each own microbatch, fill microbatch_arena() and call add(); then call finish().
///
/// The sum over the ranks can begin while the last own microbatch is computed: call set_final() for it. From then until
/// finish() has returned, or next_sum() nothing, the communicator belongs to this object.
class GradientSum {
 public:
  /// `count`: floats of an arena. `places`: see buckets_of(); without any there is one bucket. The references must
  /// outlive this object.
  GradientSum(kernels::Backend& backend, comm::Communicator& communicator, const MicrobatchPlan& plan,
              std::size_t count, std::vector<std::size_t> places = {}, double bucket_mib = 0);

  /// Before allocate(). Elements of a microbatch's gradients that are complete before others are: for each piece, add()
  /// is called for each own microbatch, in their order, whatever the others are at. Else there is one piece, with all.
  using Pieces = std::vector<std::vector<Bucket>>;
  void set_pieces(Pieces pieces);

  /// Collective. Registers the backend's device with the communicator. Without a device, the arenas are allocated in
  /// memory that the node's other ranks can read. Throws comm::NoMemory if there is none for them, and ConfigError if
  /// only some ranks have a device.
  void allocate();
  /// Collective. Allocates one arena more, once, so that set_plan() has a wider choice. Throws comm::NoMemory on all
  /// ranks if one has no host memory; only this rank throws if its device has none.
  void allocate_spare();
  /// The number of arenas: arenas_for() this rank's range of a plan must not exceed it.
  std::size_t capacity() const { return capacity_ + (spare_.bytes() > 0 ? 1 : 0); }
  /// Between two steps. From now on the microbatches are divided by this plan; the sums have the same bits.
  void set_plan(const MicrobatchPlan& plan);

  /// Memory for the gradients of a piece's next microbatch, within an arena (backend memory).
  float* microbatch_arena(std::size_t piece = 0);
  /// The gradients of the last own microbatch are final from `place` on, and so is what was added to first_partial():
  /// sums begin that need nothing else. They run in another thread.
  void set_final(std::size_t place);
  /// Adds the gradients in microbatch_arena().
  void add(std::size_t piece = 0);
  /// Collective. Returns the sum over all microbatches of all ranks, valid until the next microbatch_arena(). It is in
  /// the backend's memory, at the same address in each step. Throws comm::PeerLost.
  float* finish();
  /// Collective. The same bucket by bucket: waits for the next one's sum, whose memory is then the caller's. nullptr:
  /// all are there.
  const Bucket* next_sum();
  /// Whether there are several buckets.
  bool is_divided() const { return buckets_.size() > 1; }
  /// Where the result is.
  const float* result() const { return arena(0); }
  /// Seconds that the sums of the last step over the ranks took.
  double seconds() const { return seconds_; }
  /// The arena of this rank's first partial sum before finish(). Per-rank values such as flags can be added to it.
  float* first_partial();

 private:
  float* arena(std::size_t index) const;
  tensor::Buffer memory_for(std::size_t arenas);
  void locate_partials();
  /// How far the sum over this rank's microbatches is, of a piece.
  struct Progress {
    std::vector<Bucket> elements;
    std::size_t depth = 0;  ///< arenas in use
    std::size_t node = 0;   ///< index in cover_
    int leaf = 0;           ///< number of leaves of that node that are done
  };
  void reduce_top(Progress& piece);
  Progress& only_piece() { return pieces_.front(); }
  bool are_done() const;
  /// Of the last microbatch.
  void reduce_bucket(const Bucket& bucket);
  bool is_last(const Progress& piece) const;
  void sum(std::size_t bucket, const std::stop_token& stop);

  kernels::Backend& backend_;
  comm::Communicator& communicator_;
  comm::Leaves leaves_;
  std::size_t count_;
  std::vector<comm::TreeNode> cover_;        ///< partial sums that this rank finishes alone
  std::size_t stride_;                       ///< floats from one arena to the next
  std::size_t capacity_ = 0;                 ///< arenas in arenas_
  tensor::Buffer arenas_;                    ///< a stack: finished partial sums, then those of the current node
  tensor::Buffer spare_;                     ///< the arena after those, if there is one
  std::vector<Bucket> buckets_;              ///< in the order of their sums
  std::vector<comm::ConstVector> partials_;  ///< for each bucket, their addresses at the end of a step
  std::vector<Progress> pieces_;             ///< at least one
  std::size_t reduced_ = 0;                  ///< buckets of which this rank's partial sums are done
  std::size_t next_ = 0;                     ///< the one that next_sum() returns next
  double seconds_ = 0;
  std::optional<BucketSums> sums_;  ///< with several buckets and ranks; the last member: ends before the arenas
};

}  // namespace distdl::parallel
