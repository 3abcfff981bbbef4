// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <distdl/base/ids.hpp>
#include <distdl/comm/traffic.hpp>
#include <distdl/parallel/cluster.hpp>

namespace distdl::train {

// Events of a run as plain values, on rank 0 only. observe/ shows them in the progress bar and writes them to files.

/// What the passes of a step compute, and how fast the hardware was measured to be. FLOPs as kernels::flops_of()
/// counts them.
struct Compute {
  double model_flops = 0;     ///< of a sample, forward and backward
  double hardware_flops = 0;  ///< the same with what is computed again in the backward pass
  double peak_flops = 0;      ///< per second, of all ranks together; 0: not measured
};

/// With a parameter server, before the ranks restore.
struct RolesKnown {
  parallel::Cluster cluster;
};

struct Started {
  std::optional<Step> resumed_from;
  Step total_steps;
  int world_size = 0;
  std::int64_t samples_per_epoch = 0, global_batch = 0;
  std::string backend;              ///< Backend::description()
  std::string resumed_source = {};  ///< "the file system", "snapshots (2 of memory) in 0.01 s"
  bool has_mixed_backends = false;  ///< the ranks may round differently
  std::uint64_t start = 0;          ///< number of this start of the run, from 1, as its checkpoints have it; 0: unknown
  Compute compute = {};
  std::string product = {};  ///< parallel::product_name(); empty: not known
};

struct StepDone {
  Step step;            ///< steps done, including this one
  double epoch = 0;     ///< epochs done, as a fraction
  double loss = 0;      ///< mean over the global batch, nats per label
  double accuracy = 0;  ///< of the global batch, 0 .. 1
  double learning_rate = 0;
  double samples_per_s = 0;
  double waited_seconds = 0;                 ///< time of this step in which this rank waited for samples
  std::optional<double> gradient_norm = {};  ///< before clipping; only with clipping
  std::optional<double> loss_scale = {};     ///< of this step; only with float16
  bool skipped = false;                      ///< its gradients overflowed and were not applied
  /// With several ranks: the time that the sums of the gradients took, and that part of it in which this rank waited
  /// for them.
  std::optional<double> sum_seconds = {}, sum_waited_seconds = {};
  /// With a pipeline: the time of the stages' passes, and that part of it in which a rank of it waited for other
  /// stages, on average; and the time in which the rank that waited least did not.
  std::optional<double> pipeline_seconds = {}, pipeline_waited_seconds = {}, pipeline_busiest_seconds = {};
  std::string compression = {};  ///< of the gradients: "int8"; empty: parallel.compression is "none"
  /// Where the peak was measured: the utilization of the hardware, 0 .. 1, by the model's FLOPs; with recomputation
  /// also by all FLOPs. PaLM, Chowdhery et al. 2022, appendix B.
  std::optional<double> mfu = {}, hfu = {};
  /// With a parameter server, at the end of a round: for each number of updates that the parameters of a gradient
  /// lacked, how many updates of a range had that many. Else empty.
  std::vector<std::int64_t> staleness = {};
  bool is_followed = false;  ///< further steps of the same round are told at once after this one
};

/// What rank 0 uses. Bytes in the memory of its backend, but for `peak`.
struct ResourcesUsed {
  Step step;
  double parameters = 0, gradients = 0;
  double optimizer = 0;                         ///< moments, and averages of the parameters
  double activations = 0;                       ///< what layers keep for the backward pass
  double workspace = 0;                         ///< gradients of activations, batches, what ranks exchange
  double peak = 0;                              ///< the most that its process had in the host's memory; 0: not known
  std::vector<comm::Traffic> collectives = {};  ///< since it connected
};

/// With parallel.compression = "auto": another compression of the gradients from now on.
struct CompressionChosen {
  Step step;                ///< steps done before
  std::string compression;  ///< "int8"
  std::string reason;       ///< "the sums of a step: none 310 ms, int8 80 ms predicted"
};

/// How fast the ranks are, and how the microbatches are divided among them: at first, when they move, and when a rank
/// has become much slower or faster. The lists have one entry per rank.
struct SharesKnown {
  Step step;
  bool moved = false;  ///< after this step
  std::vector<int> shares;
  std::vector<double> microbatch_seconds;
  std::vector<std::string> hosts;
  std::int64_t microbatch_size = 0;
  bool recomputes = false;     ///< activations: such a microbatch takes longer
  std::string went_back = {};  ///< why the last move was taken back, in words; empty: it was not
};

/// How the parameters are divided among the servers, and what they cost: at first, and when they move. The lists have
/// one entry per server.
struct RangesKnown {
  Step step;
  bool moved = false;                   ///< after this step
  std::vector<std::int64_t> elements;   ///< of each range
  std::vector<double> element_seconds;  ///< what a step takes of one
  std::vector<std::string> hosts;
  std::string went_back = {};  ///< why the last move was taken back, in words; empty: it was not
};

/// How many measurements count for nothing, because a rank was suspended meanwhile. At first, and once a minute when
/// there are more. The lists have one entry per rank.
struct RanksDisturbed {
  Step step;
  std::vector<std::int64_t> measurements;  ///< since this start, of about a second each
  std::vector<std::string> hosts;
};

struct Evaluated {
  Step step;
  double epoch = 0;
  double loss = 0, accuracy = 0;
  std::int64_t samples = 0;
  std::optional<Step> best = {};  ///< step of the best evaluation so far, see train.best_metric; empty: not compared
};

struct CheckpointSaved {
  Step step;
  std::uint64_t bytes = 0;
  double seconds = 0;                    ///< time until the commit
  double stall_seconds = 0;              ///< part of it during which training waited
  std::vector<std::string> levels = {};  ///< where its state is besides, see checkpoint::SaveOutcome
};

/// A snapshot that is now in the nodes' memory or on their disks, not on the file system.
struct SnapshotKept {
  Step step;
  double seconds = 0;                    ///< time until all its copies were made
  double stall_seconds = 0;              ///< part of it during which training waited
  std::vector<std::string> levels = {};  ///< where it is, see checkpoint::SaveOutcome
};

/// A snapshot could not be protected as requested. The run continues, and older snapshots still exist.
struct SnapshotFailed {
  Step step;
  std::string reason;
};

/// A save was due while the previous one was not finished. If the previous one was only a snapshot, the checkpoint
/// follows as soon as it is finished.
struct SaveSkipped {
  Step step;
  std::int64_t so_far = 0;  ///< number of skipped saves since this start
};

/// A save before the end of the run failed on the file system. The run continues and saves again after the next
/// interval.
struct SaveFailed {
  Step step;
  std::string reason;
};

/// Seconds that the work of a run took, the longest of the last few times; 0: not measured yet.
struct MeasuredTimes {
  double step = 0, evaluation = 0;
  double save = 0;      ///< until the checkpoint was committed
  double snapshot = 0;  ///< until it lay in the nodes' memory or on their disks
};

/// The state and a sample of the gradients passed an audit.
struct Audited {
  Step step;           ///< steps done before
  double seconds = 0;  ///< that it took
};

/// An audit found wrong bits. The run ends, and the next start continues from the last audited checkpoint.
struct Corrupted {
  Step step;                            ///< whose state was audited
  std::optional<Step> audited = {};     ///< the last step that had passed an audit
  std::vector<int> ranks = {};          ///< that are wrong, ascending
  std::vector<std::string> hosts = {};  ///< of these ranks, each once, as the scheduler calls them
  bool is_certain = true;               ///< false: at least one of them is wrong
  std::string reason = {};
  std::vector<Step> set_aside = {};  ///< checkpoints that are in quarantine now
};

/// When the run must stop at the latest, as its scheduler and its measured times have it. Times are seconds since 1970.
struct DeadlineKnown {
  std::optional<double> end = {};        ///< of the job
  std::optional<double> last_safe = {};  ///< a step that begins later might leave too little time for a save
  double needed = 0;                     ///< seconds between these two
  double margin = 0;                     ///< of these, train.stop_margin_seconds
  MeasuredTimes times = {};
  std::optional<double> warning = {};        ///< when the scheduler sends its signal (--signal), or up to 60 s earlier
  std::string preemption = {};               ///< what a preemption does: "REQUEUE"; empty: not known
  std::optional<double> grace_seconds = {};  ///< from its first signal to SIGKILL
  std::optional<bool> grace_is_enough = {};  ///< for a step and the saves
};

/// The state of this step is about to be kept: whatever is recorded of the steps up to it must outlive this process.
struct SaveBegins {
  Step step;
};

struct Stopped {
  Step step;
  std::string reason;  ///< "signal SIGTERM", "end of the job in 40 s"
};

struct Finished {
  Step step;
  std::optional<double> loss = {}, accuracy = {};  ///< of the last evaluation; empty without validation data
  std::string early = {};                          ///< why the run ended before its last step; empty: it did not
};

class Observer {
 public:
  virtual ~Observer() = default;
  virtual void on(const RolesKnown&) {}
  virtual void on(const Started&) {}
  virtual void on(const StepDone&) {}
  virtual void on(const ResourcesUsed&) {}
  virtual void on(const CompressionChosen&) {}
  virtual void on(const SharesKnown&) {}
  virtual void on(const RangesKnown&) {}
  virtual void on(const RanksDisturbed&) {}
  virtual void on(const Evaluated&) {}
  virtual void on(const SaveBegins&) {}
  virtual void on(const CheckpointSaved&) {}
  virtual void on(const SnapshotKept&) {}
  virtual void on(const SnapshotFailed&) {}
  virtual void on(const SaveSkipped&) {}
  virtual void on(const SaveFailed&) {}
  virtual void on(const Audited&) {}
  virtual void on(const Corrupted&) {}
  virtual void on(const DeadlineKnown&) {}
  virtual void on(const Stopped&) {}
  virtual void on(const Finished&) {}
};

}  // namespace distdl::train
