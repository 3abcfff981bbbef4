// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <optional>
#include <stop_token>
#include <utility>
#include <vector>

#include <distdl/comm/communicator.hpp>
#include <distdl/kernels/backend.hpp>
#include <distdl/parallel/bucket_sums.hpp>
#include <distdl/parallel/buckets.hpp>
#include <distdl/parallel/compressed_sum.hpp>
#include <distdl/parallel/plan.hpp>
#include <distdl/tensor/buffer.hpp>

namespace distdl::parallel {

/// Returns the most arenas that a rank with `range` has in use while it sums its microbatches' gradients.
std::size_t arenas_for(comm::LeafRange range, int microbatches);

/// Sums the gradient arenas of all microbatches of a step along the fixed tree. Sums of this rank's microbatches, as
/// they are computed, take at most log2(microbatches) + 2 arenas; then it sums over the ranks, bucket by bucket. Call
/// allocate() once. In each step, for each own microbatch, fill microbatch_arena() and call add(); then call finish().
///
/// The sum over the ranks can begin while the last own microbatch is computed: call set_final() for it. From then until
/// finish() has returned, or next_sum() has returned nullptr, the communicator belongs to this object.
///
/// With Reduction::counts, a rank gets its slice of each bucket's sum only. With Reduction::followers, the same thread
/// then does other work with the communicator, and a step ends with end_step().
///
/// With several devices, several threads of the rank compute its microbatches. Each calls the functions that take its
/// device. Device 0, the default, is that of the caller, who calls all other functions.
class GradientSum {
 public:
  /// A piece has the elements of a microbatch's gradients that are complete before others.
  using Pieces = std::vector<std::vector<Bucket>>;
  struct Setup {
    std::vector<std::size_t> places = {};  ///< places where buckets may begin, see buckets_of(); empty: one bucket
    double bucket_mib = 0;                 ///< least size of a bucket in MiB; 0: chosen, where there are places
    /// Backends of the devices of this rank, on hosts only. Device i sums the microbatches range(i). With several there
    /// is no set_plan(). Empty: one device, of the caller.
    std::vector<kernels::Backend*> devices = {};
    /// add() is called for each piece and each own microbatch, in the order of the microbatches, independently of the
    /// other pieces. Empty: one piece with all elements.
    Pieces pieces = {};
    /// Nothing runs in another thread: the sums run in next_sum(), and the followers in release_followers(). For ranks
    /// whose passes use connections of the same communicator. On a device this is so in any case.
    bool in_callers_thread = false;
  };
  /// `count`: floats of an arena. The references must outlive this object.
  GradientSum(kernels::Backend& backend, comm::Communicator& communicator, const MicrobatchPlan& plan,
              std::size_t count, Setup setup);
  GradientSum(kernels::Backend& backend, comm::Communicator& communicator, const MicrobatchPlan& plan,
              std::size_t count)
      : GradientSum(backend, communicator, plan, count, Setup()) {}
  ~GradientSum();
  GradientSum(const GradientSum&) = delete;
  GradientSum& operator=(const GradientSum&) = delete;

  comm::LeafRange range(std::size_t device) const { return shares_[device].range; }
  /// Buckets in the order of their sums.
  const std::vector<Bucket>& buckets() const { return buckets_; }
  /// Work with the communicator that follows the sums, in the thread of the sums, if there is one. All ranks have the
  /// same order. A sum never waits for a follower that comes after it.
  struct Followers {
    std::size_t count = 0;
    /// For each bucket, the number of followers that come before its sum. Ascends.
    std::vector<std::size_t> before = {};
    std::function<void(std::size_t number, const std::stop_token& stop)> run = {};  ///< empty: nothing follows
  };
  /// Returns the order of `count` followers where number n comes after the sum of bucket n + `lag`, or after all sums.
  std::vector<std::size_t> followers_after(std::size_t lag, std::size_t count) const;
  /// How the buckets are summed over the ranks.
  struct Reduction {
    /// For each bucket, the elements of each rank's slice, from the bucket's begin on. All ranks get the sum of the
    /// values behind the slices, such as the totals. Empty: all ranks get all sums.
    std::vector<std::vector<std::size_t>> counts = {};
    /// Gives back the memory of a bucket when it is summed, except this rank's slice, so that the backward pass is a
    /// few buckets ahead of the sums at most. That has no effect on a device, and is of no use to a rank with several
    /// microbatches, whose gradients are added first.
    bool discards = false;
    /// Without `counts`: sums the gradients below its end(), over the ranks only, so that the bits of the sums depend
    /// on the plan. Must outlive this object. Null: sums are exact.
    CompressedSum* compressed = nullptr;
    Followers followers = {};
  };
  /// Call between two steps. Sets the followers and their order from now on.
  void set_followers(Followers followers);
  /// Call after release_followers(). Waits until the first `count` followers are done.
  void wait_for_followers(std::size_t count);
  /// Collective. Lets the followers with numbers below `count` run. Throws std::logic_error if there are fewer.
  void release_followers(std::size_t count);
  /// Collective, after next_sum() has returned nullptr: waits for the followers that were released.
  void end_step();

  /// Collective. Registers the backend's device with the communicator. Without a device, the arenas are allocated in
  /// memory that the node's other ranks can read. Throws comm::NoMemory if there is none for them, and ConfigError if
  /// only some ranks have a device.
  void allocate(Reduction reduction);
  void allocate() { allocate(Reduction()); }
  /// Collective. Allocates one arena more, once, so that set_plan() has a wider choice. Throws comm::NoMemory on all
  /// ranks if one has no host memory; only this rank throws if its device has none.
  void allocate_spare();
  /// The number of arenas: arenas_for() this rank's range of a plan must not exceed it.
  std::size_t capacity() const { return capacity_ + (spare_.bytes() > 0 ? 1 : 0); }
  /// Bytes of all arenas.
  std::size_t bytes() const { return arenas_.bytes() + spare_.bytes(); }
  /// Call between two steps. Divides the microbatches by this plan from now on; the sums have the same bits.
  void set_plan(const MicrobatchPlan& plan);

  /// Memory for the gradients of a piece's next microbatch, within an arena (backend memory).
  float* microbatch_arena(std::size_t piece = 0, std::size_t device = 0);
  /// Call when the gradients of the device's last microbatch are final from `place` on, and so is first_partial(). Lets
  /// the sums begin that need nothing else; for another device than 0 this happens at the next advance().
  void set_final(std::size_t place, std::size_t device = 0);
  /// Adds the gradients in microbatch_arena().
  void add(std::size_t piece = 0, std::size_t device = 0);
  /// Begins the sums of the gradients that all devices have made final.
  void advance();
  /// Collective. Returns the sum over all microbatches of all ranks, or this rank's slices of it, valid until the next
  /// microbatch_arena(). It is in the backend's memory, at the same address in each step. Throws comm::PeerLost.
  float* finish();
  /// Collective. As finish(), but bucket by bucket: waits for the next bucket's sum, whose memory is then the caller's.
  /// Returns nullptr after the last one.
  const Bucket* next_sum();
  /// Call in the backward pass. True if next_sum() would not wait, or if it ought to be called before the pass
  /// continues: too many buckets wait in memory that is to be given back, or nobody else begins the sum.
  bool has_sum();
  /// True if there are several buckets.
  bool is_divided() const { return buckets_.size() > 1; }
  /// Address of the result.
  const float* result() const { return arena(0); }
  /// Seconds that the last step's sums over the ranks took, together with their followers.
  double seconds() const { return seconds_; }
  /// The arena of this rank's first partial sum before finish(). Per-rank values such as flags can be added to it.
  float* first_partial();

 private:
  float* arena(std::size_t index) const;
  tensor::Buffer memory_for(std::size_t arenas);
  void locate_partials();
  /// Progress of the sum over this rank's microbatches, of a piece.
  struct Progress {
    std::vector<Bucket> elements;
    std::size_t depth = 0;  ///< arenas in use
    std::size_t node = 0;   ///< index in Share::cover
    int leaf = 0;           ///< number of leaves of that node that are done
  };
  /// Microbatches, arenas and progress of one device of this rank.
  struct Share {
    kernels::Backend* backend = nullptr;
    comm::LeafRange range;
    std::vector<comm::TreeNode> cover;
    std::size_t first = 0;                 ///< its arenas begin here
    std::vector<Progress> pieces;          ///< at least one
    std::atomic<std::size_t> reduced = 0;  ///< buckets of which its partial sums are done
  };
  /// Sets, by the plan, which arenas have the partial sums of each device, and of the rank.
  void divide();
  void reduce_top(const Share& share, Progress& piece);
  bool are_done() const;
  /// Adds the partial sums that the last microbatch completes, for one bucket.
  void reduce_bucket(const Share& share, const Bucket& bucket);
  bool is_last(const Share& share, const Progress& piece) const;
  /// End of the slices of a bucket, or of its compressed part.
  std::size_t end_of_slices(std::size_t bucket) const;
  /// Number of jobs of this step that come before, in the order of all ranks.
  std::size_t jobs_before_sum(std::size_t bucket) const;
  std::size_t jobs_before_follower(std::size_t number) const;
  void work(std::size_t number, const std::stop_token& stop);
  /// Releases the jobs of the thread that can be done now.
  void release();
  void sum(std::size_t bucket, const std::stop_token& stop);
  void sum_compressed(std::size_t bucket, const std::stop_token& stop);
  void discard(std::size_t bucket);

  kernels::Backend& backend_;
  comm::Communicator& communicator_;
  comm::Leaves leaves_;
  std::size_t count_;
  comm::RangeSummation partial_;  ///< by arena: how the devices' partial sums become those that the rank finishes alone
  std::size_t stride_;            ///< floats from one arena to the next
  std::size_t capacity_ = 0;      ///< arenas in arenas_
  tensor::Buffer arenas_;         ///< a stack: finished partial sums, then those of the current node
  tensor::Buffer spare_;          ///< the arena after those, if there is one
  std::vector<Bucket> buckets_;   ///< in the order of their sums
  /// For each bucket, the addresses of its slices at the end of a step, and those of what is behind them.
  std::vector<comm::ConstVector> partials_;
  const bool has_thread_;
  Reduction reduction_;
  std::size_t followed_ = 0;   ///< followers that were released
  std::vector<Share> shares_;  ///< at least one
  std::size_t reduced_ = 0;    ///< buckets of which this rank's partial sums are done
  std::size_t next_ = 0;       ///< index of the bucket that next_sum() returns next
  double seconds_ = 0;
  double own_seconds_ = 0;          ///< seconds of this step's sums so far, without a thread of the sums
  std::optional<BucketSums> sums_;  ///< with several buckets and ranks; none: the caller's thread does all. The last
                                    ///< member: ends before the arenas
};

}  // namespace distdl::parallel
