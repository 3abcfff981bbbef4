// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include <distdl/observe/records.hpp>
#include <distdl/records/causes.hpp>

namespace distdl::observe {
namespace {
constexpr std::string_view kMetrics = "metrics.jsonl", kJournal = "journal.jsonl", kHealth = "health/HOST.jsonl";
constexpr Field kStepField{"step", "steps", "optimizer steps done when it happened"};
constexpr Field kReason{"reason", "", "why, in words"};
constexpr Field kCause{"cause", "", "why, in words"};
constexpr Field kCauseCode{"cause_code", "", "the same as a code of the table below"};
constexpr Field kCode{"code", "", "exit code, see docs/exit-codes.md; 128 + n: ended by signal n"};
constexpr Field kJob{"job", "", "id of the Slurm job; missing without Slurm"};
constexpr Field kChain{"chain", "", "id of the chain of jobs that it is a link of"};
constexpr Field kRanks{"ranks", "ranks", "number of ranks"};
constexpr Field kNodes{"nodes", "", "names of the nodes, separated by commas"};

constexpr std::array kCommon{
    Field{"event", "", "kind of the row; rows of metrics.jsonl have none"},
    Field{"time", "seconds since 1970, UTC", "when the row was written; of a `failure`: when the fault was found",
          "distdl_time_seconds"},
    Field{"start", "",
          "number of the start of the run, from 1: each time that ranks begin anew. Checkpoints of this start have the "
          "same `start`. Rows of `health/HOST.jsonl`, and those that other processes than ranks write, have none",
          "distdl_start"},
    Field{"version", "",
          "of these rows, in the first row of each start in metrics.jsonl, in the first that a process writes in a "
          "node's file, and in `started`: 2"}};

constexpr std::array kStep{
    Field{"step", "steps", "optimizer steps done, including this one", "distdl_step"},
    Field{"epoch", "epochs", "epochs done, as a fraction", "distdl_epoch"},
    Field{"loss", "nats per label", "mean over the global batch", "distdl_loss"},
    Field{"accuracy", "0 .. 1", "of the global batch", "distdl_accuracy_ratio"},
    Field{"learning_rate", "", "of this step", "distdl_learning_rate"},
    Field{"samples_per_s", "samples per second", "of this step", "distdl_samples_per_second"},
    Field{"waited_seconds", "seconds", "part of the step in which rank 0 waited for samples", "distdl_waited_seconds"},
    Field{"gradient_norm", "", "before clipping; with optim.clip_norm", "distdl_gradient_norm"},
    Field{"loss_scale", "", "of the gradients; with kernels.precision fp16", "distdl_loss_scale"},
    Field{"skipped", "", "true: the gradients overflowed and were not applied"},
    Field{"sum_seconds", "seconds", "time of the sums of the gradients; with several ranks", "distdl_sum_seconds"},
    Field{"sum_waited_seconds", "seconds", "part of it in which rank 0 waited for them", "distdl_sum_waited_seconds"},
    Field{"pipeline_seconds", "seconds", "time of the stages' passes; with pipelines", "distdl_pipeline_seconds"},
    Field{"pipeline_waited_seconds", "seconds", "part of it in which a rank waited for other stages, on average",
          "distdl_pipeline_waited_seconds"},
    Field{"pipeline_busiest_seconds", "seconds", "that part of it in which the rank that waited least did not",
          "distdl_pipeline_busiest_seconds"},
    Field{"compression", "",
          "of the gradients, of a round of local SGD, or of what workers of a parameter server push and pull; unless "
          "parallel.compression is \"none\""},
    Field{"mfu", "0 .. 1",
          "utilization of the hardware by the model's FLOPs in this step; where the peak was measured, see "
          "docs/performance.md",
          "distdl_mfu_ratio"},
    Field{"hfu", "0 .. 1", "the same by all FLOPs; where activations are computed again, and the peak was measured",
          "distdl_hfu_ratio"},
    Field{
        "staleness", "updates",
        "with a parameter server, of the round that ends: a list, for each number of updates that a gradient's "
        "parameters lacked, of how many updates of a range had that many; its last number, 255, stands for more, too"}};
constexpr std::array kEvaluation{
    kStepField, Field{"epoch", "epochs", "epochs done, as a fraction"},
    Field{"validation_loss", "nats per label", "mean over the validation data", "distdl_validation_loss"},
    Field{"validation_accuracy", "0 .. 1", "of the validation data", "distdl_validation_accuracy_ratio"},
    Field{"best_step", "steps", "of the best evaluation so far; with train.keep_best or train.stop_early_patience",
          "distdl_best_step"}};

constexpr std::array kStarted{
    Field{"restart", "", "how often Slurm has restarted the job"},
    Field{"ranks", "ranks", "number of ranks", "distdl_ranks"},
    Field{"backend", "", "what computes"},
    Field{"product", "",
          "how the ranks divide training: replicas x stages x tensor ranks (x context ranks), the strategy"},
    Field{"interrupted", "", "true: it goes on with an unfinished run"},
    Field{"total_steps", "steps", "at which the job ends", "distdl_total_steps"},
    Field{"steps_repeated", "steps", "that an earlier start had done already"},
    Field{"resumed_from", "steps", "step of the checkpoint or snapshot; missing in a new run"},
    Field{"resumed_source", "", "where that was"},
    Field{"mixed_backends", "", "true: the ranks may round differently"},
    Field{"flops_per_sample", "FLOPs", "of the model's forward and backward pass, by formula"},
    Field{"hardware_flops_per_sample", "FLOPs", "with what is computed again in the backward pass; if that is more"},
    Field{"peak_flops_per_s", "FLOPs per second",
          "of all ranks together, as `distdl bench calibrate` measured it on such nodes; missing if it did not",
          "distdl_peak_flops_per_second"}};
constexpr std::array kProgress{
    kStepField, Field{"memory_bytes", "bytes", "of rank 0, as the kernel counts it", "distdl_memory_bytes"}};
constexpr std::array kResources{
    kStepField,
    Field{"parameter_bytes", "bytes", "of the parameters", "distdl_parameter_bytes"},
    Field{"gradient_bytes", "bytes", "of the arenas in which gradients are summed", "distdl_gradient_bytes"},
    Field{"optimizer_bytes", "bytes", "of moments, and of averages of the parameters", "distdl_optimizer_bytes"},
    Field{"activation_bytes", "bytes", "that layers keep for the backward pass", "distdl_activation_bytes"},
    Field{"workspace_bytes", "bytes", "of gradients of activations, batches, and what ranks exchange",
          "distdl_workspace_bytes"},
    Field{"peak_bytes", "bytes", "the most that its process had in the memory of the host", "distdl_peak_bytes"},
    Field{"collectives", "", "a list: kinds of collectives that it has called since it connected"},
    Field{"calls", "", "a list: of each kind"},
    Field{"moved_bytes", "bytes", "a list: of operands or results, whichever are longer"},
    Field{"collective_seconds", "seconds", "a list: from their beginning until it saw their end"}};
constexpr std::array kStepOnly{kStepField};
constexpr std::array kStepReason{kStepField, kReason};
constexpr std::array kCompression{kStepField, Field{"compression", "", "from now on"}, kReason};
constexpr std::array kShares{kStepField,
                             Field{"moved", "", "true: microbatches move after this step"},
                             Field{"shares", "microbatches", "a list: of each rank"},
                             Field{"microbatch_seconds", "seconds", "a list: what one takes on each rank"},
                             Field{"hosts", "", "a list: of each rank"},
                             Field{"microbatch_size", "samples", "of one microbatch"},
                             Field{"recomputes", "", "true: activations are computed again, which takes longer"},
                             Field{"went_back", "", "why the last move is taken back, in words; missing: it is not"}};
constexpr std::array kRanges{kStepField,
                             Field{"moved", "", "true: parameters move to other servers after this step"},
                             Field{"elements", "", "a list: parameters of each server"},
                             Field{"element_seconds", "seconds", "a list: what a step takes of one at each server"},
                             Field{"hosts", "", "a list: of each server"},
                             Field{"went_back", "", "why the last move is taken back, in words; missing: it is not"}};
constexpr std::array kDisturbed{
    kStepField, Field{"measurements", "", "a list: of each rank, since this start, of about a second each"},
    Field{"hosts", "", "a list: of each rank"}};
constexpr std::array kCheckpoint{
    Field{"step", "steps", "of the checkpoint", "distdl_checkpoint_step"},
    Field{"bytes", "bytes", "its size", "distdl_checkpoint_bytes"},
    Field{"seconds", "seconds", "until the commit", "distdl_checkpoint_seconds"},
    Field{"stall_seconds", "seconds", "of these, those in which training waited", "distdl_checkpoint_stall_seconds"},
    Field{"levels", "", "a list: where its state is besides the file system, as in `snapshot`; missing: nowhere"}};
constexpr std::array kSnapshot{kStepField, Field{"seconds", "seconds", "until all copies were made"},
                               Field{"stall_seconds", "seconds", "of these, those in which training waited"},
                               Field{"levels", "",
                                     "a list: where it is: `memory` of its nodes, `partner`: memory of other failure "
                                     "domains, `parity` there, `disk` of its nodes"}};
constexpr std::array kAudited{kStepField, Field{"seconds", "seconds", "that the audit took"}};
constexpr std::array kCorrupted{kStepField,
                                Field{"audited", "steps", "the last step that had passed an audit; null: none"},
                                kNodes,
                                Field{"wrong_ranks", "", "a list of ranks"},
                                Field{"certain", "", "false: at least one of them is wrong"},
                                kReason,
                                Field{"set_aside", "steps", "a list: checkpoints that are in quarantine now"}};
constexpr std::array kDeadline{
    Field{"end", "seconds since 1970", "of the job"},
    Field{"last_safe", "seconds since 1970", "a later step might leave too little time for a save"},
    Field{"needed_seconds", "seconds", "between these two"},
    Field{"margin_seconds", "seconds", "of these, train.stop_margin_seconds"},
    Field{"step_seconds", "seconds", "measured, the longest of the last few; 0: not yet"},
    Field{"evaluation_seconds", "seconds", "likewise"},
    Field{"save_seconds", "seconds", "likewise"},
    Field{"snapshot_seconds", "seconds", "likewise"},
    kReason,
    Field{"warning", "seconds since 1970", "when Slurm sends its signal, at most 60 s later"},
    Field{"preemption", "", "what a preemption does, as Slurm calls it"},
    Field{"grace_seconds", "seconds", "from the first signal of a preemption to SIGKILL"},
    Field{"grace_is_enough", "", "for a step and the saves"}};
constexpr std::array kFinished{kStepField, Field{"reason", "", "why before the last step; missing: all steps are done"},
                               kCauseCode};
constexpr std::array kStopped{kStepField, kReason, kCauseCode};
constexpr std::array kError{kStepField, kCode, kCause, kCauseCode};

constexpr std::array kSubmitted{kJob, kChain, Field{"link", "", "its place in the chain, from 1"},
                                Field{"links", "", "of the chain"}};
constexpr std::array kJobStarted{kJob,
                                 Field{"restart", "", "how often Slurm has restarted the job"},
                                 Field{"host", "", "of \"distdl run\""},
                                 kChain,
                                 kRanks,
                                 Field{"node_count", "nodes", "of the job"},
                                 Field{"submit_time", "seconds since 1970", "of the last submission or requeue"},
                                 Field{"distdl", "", "version of the program"},
                                 Field{"processor", "", "kind of the host's processor"}};
constexpr std::array kPreflight{Field{"node_count", "nodes", "that were checked"},
                                Field{"seconds", "seconds", "that it took"},
                                Field{"excluded", "", "a list: nodes that are left out"},
                                Field{"cause", "", "what is the matter with those that are not well"},
                                Field{"unmeasured", "", "nodes whose links were not measured, and why"}};
constexpr std::array kLaunch{kRanks, kNodes, Field{"id", "", "of the launch: its folder in launches/"}};
constexpr std::array kLaunchEnded{kCode, kCause, kCauseCode, Field{"asked_to_stop", "", "true: a signal asked for it"}};
constexpr std::array kFailure{Field{"generation", "", "that broke off"},
                              kCause,
                              kCauseCode,
                              Field{"kind", "", "as the agents call it: \"killed\", \"node lost\""},
                              Field{"node", "", "that it is about, if known"},
                              Field{"rank", "", "likewise"}};
constexpr std::array kGeneration{Field{"generation", "", "that begins"}, kCause, kRanks, kNodes};
constexpr std::array kProduct{kRanks,
                              Field{"product", "", "\"4x1x1 sharded\", \"parameter_server\""},
                              kReason,
                              Field{"servers", "", "a list: the ranks of the tasks of job \"ps\", if there are any"},
                              Field{"workers", "", "a list: likewise of job \"worker\""},
                              Field{"hosts", "", "a list: of each rank; with `servers`"}};
constexpr std::array kNodeAtRisk{Field{"host", "", "of the node"}, Field{"cause", "", "the sign that says so most"},
                                 Field{"risk", "0 .. 1", "that it fails soon"}};
constexpr Field kRule{"rule", "", "number of the table [[alert]] in the job file, from 1"};
constexpr Field kWhen{"when", "", "what it is about"};
constexpr std::array kAlert{kRule, kWhen, kCause, kStepField};
constexpr std::array kAlertCleared{kRule, kWhen};
constexpr std::array kRequeued{kJob};
constexpr std::array kFailed{kJob, kStepField, kCode, kCause, kCauseCode};
constexpr std::array kJobEnded{kJob,
                               kChain,
                               kCode,
                               Field{"final", "", "true: the run must not be started again by itself"},
                               Field{"progressed", "", "true: a rank trained further than any before"},
                               Field{"refused", "",
                                     "true: its ranks refused the job before a step, and the run is still as the job "
                                     "before has left it"}};
constexpr std::array kCancelRequested{kJob, kReason};

constexpr std::array kNodeHealth{
    Field{"host", "", "of the node"},
    Field{"load", "processes per processor", "that run, or wait for a processor or a disk, mean of a minute"},
    Field{"cpu_pressure", "0 .. 1", "share of the last minute in which a process waited for a processor"},
    Field{"memory_pressure", "0 .. 1", "likewise for memory"},
    Field{"io_pressure", "0 .. 1", "likewise for disks"},
    Field{"free_memory", "0 .. 1", "share of the memory that a new process can have"},
    Field{"throttles", "", "how often processors were slowed down by heat, since boot"},
    Field{"corrected_errors", "", "of the memory, since boot"},
    Field{"uncorrected_errors", "", "likewise"},
    Field{"energy_joules", "joules", "of the node in all starts of the run until now; where its counters can be read"},
    Field{"gpus", "",
          "an object, where there are GPUs: their `count`, how many are `throttled`, degrees of the `hottest`, their "
          "`corrected_errors` and `uncorrected_errors`"}};

constexpr std::array kKinds{
    RecordKind{kMetrics, "step", "one optimizer step: the rows with `loss`", kStep},
    RecordKind{kMetrics, "evaluation", "one evaluation: the rows with `validation_loss`", kEvaluation},
    RecordKind{kJournal, "submitted", "a job was given to Slurm", kSubmitted},
    RecordKind{kJournal, "job_started", "`distdl run` begins", kJobStarted},
    RecordKind{kJournal, "preflight", "the nodes were checked", kPreflight},
    RecordKind{kJournal, "launch", "the ranks are started", kLaunch},
    RecordKind{kJournal, "product",
               "what `parallel.strategy = \"auto\"` chose, or which stages pipelines have; who has which role with "
               "`\"parameter_server\"`",
               kProduct},
    RecordKind{kJournal, "started", "the ranks have restored and begin to train", kStarted},
    RecordKind{kJournal, "progress", "once a minute", kProgress},
    RecordKind{kJournal, "resources",
               "what rank 0 uses: after the first step, every 10 minutes, and at the end of a start", kResources},
    RecordKind{kJournal, "deadline", "until when the run may train, and why", kDeadline},
    RecordKind{kJournal, "shares", "how microbatches are divided among the ranks", kShares},
    RecordKind{kJournal, "ranges", "how parameters are divided among the servers", kRanges},
    RecordKind{kJournal, "disturbed", "measurements of ranks that were suspended meanwhile: they count for nothing",
               kDisturbed},
    RecordKind{kJournal, "compression", "another compression of what is summed", kCompression},
    RecordKind{kJournal, "checkpoint", "a checkpoint was committed", kCheckpoint},
    RecordKind{kJournal, "snapshot", "a snapshot is in the nodes' memory or on their disks", kSnapshot},
    RecordKind{kJournal, "snapshot_failed", "a snapshot could not be protected as requested", kStepReason},
    RecordKind{kJournal, "save_skipped", "a save was due while the one before was not finished", kStepOnly},
    RecordKind{kJournal, "save_failed", "a save failed; the run goes on", kStepReason},
    RecordKind{kJournal, "audited", "an audit passed", kAudited},
    RecordKind{kJournal, "corrupted", "an audit found wrong bits", kCorrupted},
    RecordKind{kJournal, "node_at_risk", "a node is likely to fail soon", kNodeAtRisk},
    RecordKind{kJournal, "alert", "a rule [[alert]] of the job began to hold", kAlert},
    RecordKind{kJournal, "alert_cleared", "it no longer holds", kAlertCleared},
    RecordKind{kJournal, "failure", "a generation of ranks broke off; the agents go on", kFailure},
    RecordKind{kJournal, "generation", "the ranks of another generation are started", kGeneration},
    RecordKind{kJournal, "error", "rank 0 ends with an error", kError},
    RecordKind{kJournal, "stopped", "everything is saved, and the ranks end", kStopped},
    RecordKind{kJournal, "finished", "all steps are done, or the run ended early", kFinished},
    RecordKind{kJournal, "launch_ended", "all ranks have ended", kLaunchEnded},
    RecordKind{kJournal, "node_lost", "a node of the launch that ended does not answer", {}},
    RecordKind{kJournal, "requeued", "the job was put back into the queue", kRequeued},
    RecordKind{kJournal, "failed", "the run fails: `distdl run` gives it up, for this job or for good", kFailed},
    RecordKind{kJournal, "job_ended", "`distdl run` ends", kJobEnded},
    RecordKind{kJournal, "cancel_requested", "a user asked for the end", kCancelRequested},
    RecordKind{kHealth, "node_health", "the state of a node, every 30 seconds; in the file of its own", kNodeHealth}};

void add_rows(std::string& text, std::string_view kind, std::span<const Field> fields) {
  for (const Field& field : fields)
    text += fmt::format("| {} | `{}` | {} | {} | {} |\n", kind, field.name, field.unit, field.meaning,
                        field.metric.empty() ? "" : fmt::format("`{}`", field.metric));
}
}  // namespace

std::span<const Field> common_fields() {
  return kCommon;
}

std::span<const RecordKind> record_kinds() {
  return kKinds;
}

const RecordKind* find_kind(std::string_view name) {
  const auto* const found = std::ranges::find(kKinds, name, &RecordKind::name);
  return found == kKinds.end() ? nullptr : &*found;
}

std::string records_as_markdown() {
  std::string text = fmt::format(
      "Version {}. Each row is one JSON object on a line of its own. A later version may add fields and kinds of rows; "
      "readers pass over what they do not know. A field whose value is not known is missing, unless its meaning says "
      "null.\n",
      kRecordVersion);
  constexpr std::string_view kHead = "| record | field | unit | meaning | OpenMetrics |\n|---|---|---|---|---|\n";
  text += fmt::format("\n## All rows\n\n{}", kHead);
  add_rows(text, "", kCommon);
  for (const std::string_view file : {kMetrics, kJournal, kHealth}) {
    text += fmt::format("\n## {}\n\n{}", file, kHead);
    for (const RecordKind& kind : kKinds) {
      if (kind.file != file) continue;
      text += fmt::format("| **{}** | | | {} | |\n", kind.name, kind.meaning);
      add_rows(text, kind.name, kind.fields);
    }
  }
  text += "\n## Codes of causes\n\n| `cause_code` | meaning |\n|---|---|\n";
  for (const records::CauseEntry& entry : records::kCauses)
    text += fmt::format("| `{}` | {} |\n", entry.code, entry.meaning);
  return text;
}

}  // namespace distdl::observe
