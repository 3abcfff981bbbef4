// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include <distdl/base/ids.hpp>
#include <distdl/files/file_system.hpp>
#include <distdl/optim/arena_ranges.hpp>
#include <distdl/parallel/plan.hpp>
#include <distdl/train/bit_flip.hpp>

namespace distdl::train {

struct AnswerSeconds;  // server/range_rule.hpp
struct RankTimes;      // balance/microbatch_rule.hpp

/// Replacements that tests and drills give a run: for its clocks, for its file system, for a correct bit.
struct TestHooks {
  /// Returns the times of this rank, instead of clocks. Null: clocks.
  std::function<RankTimes(Step, const parallel::MicrobatchPlan&)> rank_times = {};
  /// Returns the waits for the servers of these ranges, instead of clocks. Null: clocks.
  std::function<AnswerSeconds(Step, const std::vector<optim::Elements>&)> answer_seconds = {};
  /// The file system of the checkpoints and the local disks. It must outlive the run. Null: that of the operating
  /// system.
  FileSystem* files = nullptr;
  std::optional<BitFlip> bit_flip = {};  ///< an error on purpose, in a start that resumes nothing
};

}  // namespace distdl::train
