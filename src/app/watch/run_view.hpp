// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <distdl/app/runs/run_report.hpp>
#include <distdl/app/watch/estimate.hpp>
#include <distdl/app/watch/node_paces.hpp>
#include <distdl/app/watch/run_curves.hpp>
#include <distdl/base/console.hpp>
#include <distdl/observe/run/ledger.hpp>

namespace distdl::app {

/// Where the time of a rank's step goes, in seconds per step.
struct RankPhases {
  std::int64_t rank = 0;
  std::string host = {};
  double compute = 0;  ///< forward and backward passes of its microbatches
  double data = 0;     ///< waits for samples
  double sum = 0;      ///< waits for other ranks: sums of gradients, stages of a pipeline
  double save = 0;     ///< waits for a save
  double other = 0;    ///< the rest of the step
};

/// Something that happened to a run.
struct TimelineEntry {
  double time = 0;             ///< seconds since 1970
  Colour tone = Colour::none;  ///< red: a fault, yellow: a stop or a warning, green: the run goes on
  std::string text = {};
};

/// A checkpoint in the file system, or a snapshot in memory or on disks of nodes.
struct SaveView {
  bool is_snapshot = false;
  std::int64_t step = 0;
  double time = 0, seconds = 0, stall_seconds = 0;
  double bytes = 0;                      ///< 0: not known
  std::vector<std::string> levels = {};  ///< besides the file system, if the rows tell
};

/// All saves of one kind.
struct SaveTotals {
  int count = 0;
  double bytes = 0, seconds = 0, stall_seconds = 0;
};

/// All that the screens and the report show of a run.
struct RunView {
  RunReport report = {};
  double now = 0;            ///< seconds since 1970
  bool is_read = false;      ///< false: it is being opened
  std::string trouble = {};  ///< why it cannot be read
  RunCurves curves = {};
  double step_seconds = 0;   ///< median of the last steps; 0: not known
  double samples_per_s = 0;  ///< likewise; of a run that has ended that of its result.json
  std::vector<RankPhases> ranks = {};
  std::vector<NodePace> nodes = {};          ///< the slowest first
  std::vector<TimelineEntry> timeline = {};  ///< the oldest first
  std::vector<SaveView> saves = {};          ///< the oldest first
  SaveTotals checkpoints = {}, snapshots = {};
  int failed_saves = 0, skipped_saves = 0;
  observe::Ledger ledger = {};
  Estimate estimate = {};
};

/// "file system, memory, partner"; "nodes": a snapshot whose row does not tell.
std::string places_text(const SaveView& save);

}  // namespace distdl::app
