// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <distdl/base/ids.hpp>
#include <distdl/records/field.hpp>

// Checkpoints, snapshots and audits of the state.
namespace distdl::records {

struct CheckpointSaved {
  static constexpr Kind kKind{
      "checkpoint", "a checkpoint was committed", {.is_of_training = true, .is_replaced = true}};

  std::optional<Step> step = {};
  std::uint64_t bytes = 0;
  double seconds = 0;                        ///< time until the commit
  std::optional<double> stall_seconds = {};  ///< part of it during which training waited
  std::vector<std::string> levels = {};      ///< where its state is besides, see checkpoint::SaveOutcome
};

void describe(Is<CheckpointSaved> auto& r, auto&& visit) {
  visit("step", r.step, "steps", "of the checkpoint", "distdl_checkpoint_step");
  visit("bytes", r.bytes, "bytes", "its size", "distdl_checkpoint_bytes");
  visit("seconds", r.seconds, "seconds", "until the commit", "distdl_checkpoint_seconds");
  visit("stall_seconds", r.stall_seconds, "seconds", "of these, those in which training waited",
        "distdl_checkpoint_stall_seconds");
  visit("levels", if_any(r.levels), "",
        "a list: where its state is besides the file system, as in `snapshot`; missing: nowhere");
}

/// A snapshot that is now in the nodes' memory or on their disks, not on the file system.
struct SnapshotKept {
  static constexpr Kind kKind{"snapshot",
                              "a snapshot is in the nodes' memory or on their disks",
                              {.is_of_training = true, .is_frequent = true, .is_replaced = true}};

  std::optional<Step> step = {};
  double seconds = 0;                    ///< time until all its copies were made
  double stall_seconds = 0;              ///< part of it during which training waited
  std::vector<std::string> levels = {};  ///< where it is, see checkpoint::SaveOutcome
};

void describe(Is<SnapshotKept> auto& r, auto&& visit) {
  visit("step", r.step, "steps", kStepMeaning);
  visit("seconds", r.seconds, "seconds", "until all copies were made");
  visit("stall_seconds", r.stall_seconds, "seconds", "of these, those in which training waited");
  visit("levels", if_any(r.levels), "",
        "a list: where it is: `memory` of its nodes, `partner`: memory of other failure domains, `parity` there, "
        "`disk` of its nodes");
}

/// Levels that this version does not know are dropped.
void mend(CheckpointSaved& saved);
void mend(SnapshotKept& kept);

/// A snapshot could not be protected as requested. The run continues, and older snapshots still exist.
struct SnapshotFailed {
  static constexpr Kind kKind{"snapshot_failed",
                              "a snapshot could not be protected as requested",
                              {.is_of_training = true, .is_frequent = true, .is_replaced = true}};

  Step step;
  std::string reason = {};
};

/// A save before the end of the run failed on the file system. The run continues and saves again after the next
/// interval.
struct SaveFailed {
  static constexpr Kind kKind{
      "save_failed", "a save failed; the run goes on", {.is_of_training = true, .is_replaced = true}};

  Step step;
  std::string reason = {};
};

template <class R>
requires Is<R, SnapshotFailed> || Is<R, SaveFailed>
void describe(R& r, auto&& visit) {
  visit("step", r.step, "steps", kStepMeaning);
  visit("reason", r.reason, "", kReasonMeaning);
}

/// A save was due while the previous one was not finished. If the previous one was only a snapshot, the checkpoint
/// follows as soon as it is finished.
struct SaveSkipped {
  static constexpr Kind kKind{"save_skipped",
                              "a save was due while the one before was not finished",
                              {.is_of_training = true, .is_replaced = true}};

  Step step;
};

void describe(Is<SaveSkipped> auto& r, auto&& visit) {
  visit("step", r.step, "steps", kStepMeaning);
}

/// The state and a sample of the gradients passed an audit.
struct Audited {
  static constexpr Kind kKind{
      "audited", "an audit passed", {.is_of_training = true, .is_frequent = true, .is_replaced = true}};

  Step step;           ///< steps done before
  double seconds = 0;  ///< that it took
};

void describe(Is<Audited> auto& r, auto&& visit) {
  visit("step", r.step, "steps", kStepMeaning);
  visit("seconds", r.seconds, "seconds", "that the audit took");
}

/// An audit found wrong bits. The run ends, and the next start continues from the last audited checkpoint.
struct Corrupted {
  static constexpr Kind kKind{"corrupted", "an audit found wrong bits", {.is_of_training = true}};

  Step step;                            ///< whose state was audited
  std::optional<Step> audited = {};     ///< the last step that had passed an audit
  std::vector<int> ranks = {};          ///< that are wrong, ascending
  std::vector<std::string> hosts = {};  ///< their nodes, each once, as the scheduler calls them
  bool is_certain = true;               ///< false: at least one of them is wrong
  std::string reason = {};
  std::vector<Step> set_aside = {};  ///< checkpoints that are in quarantine now
};

void describe(Is<Corrupted> auto& r, auto&& visit) {
  visit("step", r.step, "steps", kStepMeaning);
  visit("audited", or_null(r.audited), "steps", "the last step that had passed an audit; null: none");
  visit("nodes", joined(r.hosts), "", kNodesMeaning);
  visit("wrong_ranks", r.ranks, "", "a list of ranks");
  visit("certain", r.is_certain, "", "false: at least one of them is wrong");
  visit("reason", r.reason, "", kReasonMeaning);
  visit("set_aside", r.set_aside, "steps", "a list: checkpoints that are in quarantine now");
}

}  // namespace distdl::records
