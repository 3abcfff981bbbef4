// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <distdl/base/ids.hpp>
#include <distdl/records/causes.hpp>
#include <distdl/records/field.hpp>

// Records of a start of the run as a whole, made by rank 0.
namespace distdl::records {

/// The meaning of parallel.strategy = "auto" in this start of the ranks, the stages of their pipelines, or who has
/// which role with "parameter_server". It is known before the ranks restore.
struct ProductChosen {
  static constexpr Kind kKind{"product",
                              "what `parallel.strategy = \"auto\"` chose, or which stages pipelines have; who has "
                              "which role with `\"parameter_server\"`"};

  int ranks = 0;
  std::string product = {};  ///< "4x1x1 sharded", "parameter_server"
  std::string reason = {};
  std::vector<Rank> servers = {}, workers = {};  ///< with "parameter_server", in the order of their tasks
  std::vector<std::string> hosts = {};           ///< one per rank, with "parameter_server"
};

void describe(Is<ProductChosen> auto& r, auto&& visit) {
  const bool has_servers = !r.servers.empty();
  visit("ranks", r.ranks, "ranks", kRanksMeaning);
  visit("product", r.product, "", "\"4x1x1 sharded\", \"parameter_server\"");
  visit("reason", r.reason, "", kReasonMeaning);
  visit("servers", written_if(has_servers, r.servers), "",
        "a list: the ranks of the tasks of job \"ps\", if there are any");
  visit("workers", written_if(has_servers, r.workers), "", "a list: likewise of job \"worker\"");
  visit("hosts", written_if(has_servers, r.hosts), "", "a list: of each rank; with `servers`");
}

/// Roles of ranks that do not exist are dropped.
void mend(ProductChosen& product);

/// The work of the passes of a step, and how fast the hardware was measured to be. FLOPs as kernels::flops_of()
/// counts them.
struct Compute {
  double model_flops = 0;     ///< for a sample, forward and backward
  double hardware_flops = 0;  ///< the same with what is computed again in the backward pass
  double peak_flops = 0;      ///< per second, of all ranks together; 0: not measured
};

struct Started {
  static constexpr Kind kKind{"started", "the ranks have restored and begin to train", {.is_of_training = true}};

  std::optional<Step> resumed_from = {};
  std::optional<Step> total_steps = {};
  int world_size = 0;
  std::int64_t samples_per_epoch = 0, global_batch = 0;
  std::string backend = {};         ///< Backend::description()
  std::string resumed_source = {};  ///< "the file system", "snapshots (2 of memory) in 0.01 s"
  bool has_mixed_backends = false;  ///< the ranks may round differently
  std::uint64_t start = 0;          ///< number of this start of the run, from 1, as its checkpoints have it; 0: unknown
  Compute compute = {};
  std::string product = {};  ///< parallel::product_name(); empty: not known
  // The run folder adds these.
  std::int64_t restart = 0, steps_repeated = 0;
  bool interrupted = false;
};

void describe(Is<Started> auto& r, auto&& visit) {
  const bool has_resumed = r.resumed_from.has_value();
  visit("restart", r.restart, "", "how often Slurm has restarted the job");
  visit("ranks", r.world_size, "ranks", kRanksMeaning, "distdl_ranks");
  visit("backend", r.backend, "", "what computes");
  visit("product", if_any(r.product), "",
        "how the ranks divide training: replicas x stages x tensor ranks (x context ranks), the strategy");
  visit("interrupted", r.interrupted, "", "true: it goes on with an unfinished run");
  visit("total_steps", r.total_steps, "steps", "at which the job ends", "distdl_total_steps");
  visit("steps_repeated", r.steps_repeated, "steps", "that an earlier start had done already");
  visit("resumed_from", r.resumed_from, "steps", "step of the checkpoint or snapshot; missing in a new run");
  visit("resumed_source", written_if(has_resumed, r.resumed_source), "", "where that was");
  visit("mixed_backends", if_any(r.has_mixed_backends), "", "true: the ranks may round differently");
  visit("flops_per_sample", if_any(r.compute.model_flops), "FLOPs",
        "of the model's forward and backward pass, by formula");
  visit("hardware_flops_per_sample",
        written_if(r.compute.hardware_flops > r.compute.model_flops, r.compute.hardware_flops), "FLOPs",
        "with what is computed again in the backward pass; if that is more");
  visit("peak_flops_per_s", if_any(r.compute.peak_flops), "FLOPs per second",
        "of all ranks together, as `distdl bench calibrate` measured it on such nodes; missing if it did not",
        "distdl_peak_flops_per_second");
}

/// Numbers of repeated steps whose sum over a file might overflow are dropped. hardware_flops is at least model_flops.
void mend(Started& started);

/// Rank 0 is still training. The ledger knows it where metrics.jsonl is too long to be read as a whole.
struct StillTraining {
  static constexpr Kind kKind{
      "progress", "once a minute", {.is_of_training = true, .is_frequent = true, .is_replaced = true}};

  std::optional<Step> step = {};
  std::optional<double> memory_bytes = {};
};

void describe(Is<StillTraining> auto& r, auto&& visit) {
  visit("step", r.step, "steps", kStepMeaning);
  visit("memory_bytes", r.memory_bytes, "bytes", "of rank 0, as the kernel counts it", "distdl_memory_bytes");
}

/// Rank 0's use of memory and collectives. Bytes in the memory of its backend, but for `peak`.
struct ResourcesUsed {
  static constexpr Kind kKind{"resources",
                              "what rank 0 uses: after the first step, every 10 minutes, and at the end of a start",
                              {.is_of_training = true, .is_replaced = true}};

  Step step;
  double parameters = 0, gradients = 0;
  double optimizer = 0;    ///< moments, and averages of the parameters
  double activations = 0;  ///< what layers keep for the backward pass
  double workspace = 0;    ///< gradients of activations, batches, what ranks exchange
  double peak = 0;         ///< the most that its process had in the host's memory; 0: not known
  /// The collectives since it connected, by kind; see comm::Traffic. The four lists are as long.
  std::vector<std::string> collectives = {};
  std::vector<std::uint64_t> calls = {}, moved_bytes = {};
  std::vector<double> collective_seconds = {};
};

void describe(Is<ResourcesUsed> auto& r, auto&& visit) {
  visit("step", r.step, "steps", kStepMeaning);
  visit("parameter_bytes", r.parameters, "bytes", "of the parameters", "distdl_parameter_bytes");
  visit("gradient_bytes", r.gradients, "bytes", "of the arenas in which gradients are summed", "distdl_gradient_bytes");
  visit("optimizer_bytes", r.optimizer, "bytes", "of moments, and of averages of the parameters",
        "distdl_optimizer_bytes");
  visit("activation_bytes", r.activations, "bytes", "that layers keep for the backward pass",
        "distdl_activation_bytes");
  visit("workspace_bytes", r.workspace, "bytes", "of gradients of activations, batches, and what ranks exchange",
        "distdl_workspace_bytes");
  visit("peak_bytes", if_any(r.peak), "bytes", "the most that its process had in the memory of the host",
        "distdl_peak_bytes");
  visit("collectives", r.collectives, "", "a list: kinds of collectives that it has called since it connected");
  visit("calls", r.calls, "", "a list: of each kind");
  visit("moved_bytes", r.moved_bytes, "bytes", "a list: of operands or results, whichever are longer");
  visit("collective_seconds", r.collective_seconds, "seconds", "a list: from their beginning until it saw their end");
}

/// Lists of different lengths are dropped.
void mend(ResourcesUsed& used);

/// Seconds that the work of a run took, the longest of the last few times; 0: not measured yet.
struct MeasuredTimes {
  double step = 0, evaluation = 0;
  double save = 0;      ///< until the checkpoint was committed
  double snapshot = 0;  ///< until it lay in the nodes' memory or on their disks
};

/// When the run must stop at the latest, as its scheduler and its measured times have it. Times are seconds since 1970.
struct DeadlineKnown {
  static constexpr Kind kKind{
      "deadline", "until when the run may train, and why", {.is_of_training = true, .is_replaced = true}};

  std::optional<double> end = {};        ///< the end of the job
  std::optional<double> last_safe = {};  ///< a step that begins later might leave too little time for a save
  double needed = 0;                     ///< seconds between these two
  double margin = 0;                     ///< part of these: train.stop_margin_seconds
  MeasuredTimes times = {};
  std::optional<double> warning = {};        ///< when the scheduler sends its signal (--signal), or up to 60 s earlier
  std::string preemption = {};               ///< what a preemption does: "REQUEUE"; empty: not known
  std::optional<double> grace_seconds = {};  ///< from its first signal to SIGKILL
  std::optional<bool> grace_is_enough = {};  ///< for a step and the saves
  std::string reason = {};                   ///< train::explain()
};

void describe(Is<DeadlineKnown> auto& r, auto&& visit) {
  visit("end", or_null(r.end), "seconds since 1970", "of the job");
  visit("last_safe", or_null(r.last_safe), "seconds since 1970", "a later step might leave too little time for a save");
  visit("needed_seconds", r.needed, "seconds", "between these two");
  visit("margin_seconds", r.margin, "seconds", "of these, train.stop_margin_seconds");
  visit("step_seconds", r.times.step, "seconds", "measured, the longest of the last few; 0: not yet");
  visit("evaluation_seconds", r.times.evaluation, "seconds", "likewise");
  visit("save_seconds", r.times.save, "seconds", "likewise");
  visit("snapshot_seconds", r.times.snapshot, "seconds", "likewise");
  visit("reason", r.reason, "", kReasonMeaning);
  visit("warning", r.warning, "seconds since 1970", "when Slurm sends its signal, at most 60 s later");
  visit("preemption", if_any(r.preemption), "", "what a preemption does, as Slurm calls it");
  visit("grace_seconds", r.grace_seconds, "seconds", "from the first signal of a preemption to SIGKILL");
  visit("grace_is_enough", r.grace_is_enough, "", "for a step and the saves");
}

/// Rank 0 ends with an error.
struct RankFailed {
  static constexpr Kind kKind{"error", "rank 0 ends with an error"};

  std::optional<Step> step = {};
  int code = 0;
  std::string cause = {}, cause_code = {};
};

void describe(Is<RankFailed> auto& r, auto&& visit) {
  visit("step", r.step, "steps", kStepMeaning);
  visit("code", r.code, "", kCodeMeaning);
  visit("cause", r.cause, "", kCauseMeaning);
  visit("cause_code", r.cause_code, "", kCauseCodeMeaning);
}

inline void complete(RankFailed& r) {
  if (r.cause_code.empty()) r.cause_code = cause_of_exit(r.code);
}

struct Stopped {
  static constexpr Kind kKind{"stopped", "everything is saved, and the ranks end", {.is_of_training = true}};

  std::optional<Step> step = {};
  std::string reason = {};  ///< "signal SIGTERM", "end of the job in 40 s"
  std::string cause_code = {};
};

void describe(Is<Stopped> auto& r, auto&& visit) {
  visit("step", r.step, "steps", kStepMeaning);
  visit("reason", r.reason, "", kReasonMeaning);
  visit("cause_code", r.cause_code, "", kCauseCodeMeaning);
}

inline void complete(Stopped& r) {
  if (r.cause_code.empty()) r.cause_code = cause_of_stop(r.reason);
}

struct Finished {
  static constexpr Kind kKind{"finished", "all steps are done, or the run ended early", {.is_of_training = true}};

  std::optional<Step> step = {};
  std::optional<double> loss = {}, accuracy = {};  ///< the last evaluation; empty without validation data
  std::string early = {};                          ///< why the run ended before its last step; empty: it did not
  std::string cause_code = {};
};

void describe(Is<Finished> auto& r, auto&& visit) {
  visit("step", r.step, "steps", kStepMeaning);
  visit("reason", if_any(r.early), "", "why before the last step; missing: all steps are done");
  visit("cause_code", if_any(r.cause_code), "", kCauseCodeMeaning);
}

inline void complete(Finished& r) {
  if (r.cause_code.empty() && !r.early.empty()) r.cause_code = kStoppedEarly;
}

}  // namespace distdl::records
