// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <distdl/base/ids.hpp>
#include <distdl/checkpoint/interval.hpp>
#include <distdl/checkpoint/owner.hpp>
#include <distdl/records/observer.hpp>
#include <distdl/slurm/job_limits.hpp>
#include <distdl/train/test_hooks.hpp>
#include <distdl/train/trace.hpp>

namespace distdl::train {

/// The place and the time limits of a run, as plain values. A run asks its Host for what may change while it trains.
struct Setting {
  std::filesystem::path checkpoints;     ///< the folder of the run's checkpoints, seen by all ranks
  checkpoint::Owner owner;               ///< the same on all ranks
  slurm::JobLimits limits = {};          ///< when and how the job ends; rank 0's count
  checkpoint::FailureRecord failures{};  ///< failures of the run so far; rank 0's counts
  std::int64_t devices_per_rank = 1;     ///< see DeviceReplicas; the same on all ranks
  /// The costs by which the layers are divided into the stages of pipelines, see parallel::stages_of(); the same on all
  /// ranks.
  std::vector<double> stage_costs = {};
  records::MeasuredTimes measured = {};  ///< times measured by an earlier start of the run; rank 0's count
  std::string node = {};                 ///< the scheduler's name of this rank's node; empty: its host name
  /// Failure domain of the node, if nodes of one domain may be lost together: for checkpoint.failure_domain = "switch".
  std::string failure_domain = {};
  checkpoint::SnapshotUse snapshots = checkpoint::SnapshotUse::newest;  ///< where to resume from
  std::optional<TraceSetting> trace = {};                               ///< the same on all ranks
  std::optional<Step> resume_below = {};  ///< resume from an earlier step than this, unless there is no such checkpoint
  TestHooks hooks = {};
};

}  // namespace distdl::train
