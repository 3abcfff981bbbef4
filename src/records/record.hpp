// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include <distdl/base/ids.hpp>
#include <distdl/records/alerts.hpp>
#include <distdl/records/jobs.hpp>
#include <distdl/records/launches.hpp>
#include <distdl/records/nodes.hpp>
#include <distdl/records/saves.hpp>
#include <distdl/records/shares.hpp>
#include <distdl/records/starts.hpp>
#include <distdl/records/steps.hpp>

namespace distdl::records {

/// A row of a kind that this version does not know, or one that is damaged.
struct Other {
  static constexpr Kind kKind{};

  std::string event = {};  ///< empty: the row has none, as those of metrics.jsonl
  std::optional<Step> step = {};
  std::string job = {}, cause = {}, cause_code = {};
};

/// One record of a run, of any kind: the table of all kinds, in the order of docs/metrics.md.
using Record =
    std::variant<Other, StepDone, Evaluated, Submitted, JobStarted, NodesChecked, LaunchBegan, ProductChosen, Started,
                 StillTraining, ResourcesUsed, DeadlineKnown, SharesKnown, RangesKnown, RanksDisturbed,
                 CompressionChosen, CheckpointSaved, SnapshotKept, SnapshotFailed, SaveSkipped, SaveFailed, Audited,
                 Corrupted, NodeAtRisk, AlertRaised, AlertCleared, GenerationFailed, GenerationBegan, RankFailed,
                 Stopped, Finished, LaunchEnded, NodeLost, Requeued, RunFailed, JobEnded, CancelRequested,
                 RequeueRequested, NodeHealth, NodeIsBad, NodesExcluded>;

/// A record with what rows of all kinds have.
struct Row {
  Record record = {};
  double time = 0;                         ///< seconds since 1970; 0: the row does not tell
  std::optional<std::int64_t> start = {};  ///< number from 1; empty: rows of version 1, and of other processes
  bool has_version = false;                ///< when written: the row tells the version of the rows

  /// The record if it is of this kind, else null.
  template <class Kind>
  const Kind* as() const {
    return std::get_if<Kind>(&record);
  }
  template <class... Kinds>
  bool is() const {
    return (std::holds_alternative<Kinds>(record) || ...);
  }
};

/// The description of the record's kind; that of Other has no name.
const Kind& kind_of(const Record& record);
/// The kind's name, as rows have it in `event`: "started"; "step" and "evaluation" for those of metrics.jsonl.
std::string_view name_of(const Record& record);
/// Returns "step 5"; for kNoStep "a step that is not known".
std::string step_text(Step step);
/// Steps done when it happened; nothing if records of this kind, or this one, do not tell.
std::optional<Step> step_of(const Record& record);
/// The id of the Slurm job, and why it happened, in words; empty if records of this kind, or this one, do not tell.
std::string job_of(const Record& record);
std::string cause_of(const Record& record);
/// The code of the cause (causes.hpp), also in rows of version 1; empty if records of this kind do not tell.
std::string cause_code_of(const Record& record);

}  // namespace distdl::records
