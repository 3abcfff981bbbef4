// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include <distdl/app/checks/run_folder_check.hpp>
#include <distdl/config/job.hpp>

namespace distdl::app {

inline constexpr std::uint64_t kAnyMemory = std::numeric_limits<std::uint64_t>::max();

struct JobFacts {
  std::string text;               ///< what the job trains, for people
  std::uint64_t state_bytes = 0;  ///< approximate size of a checkpoint
};

/// Checks a job as check_job() does, and returns more facts about it.
JobFacts examine_job(const config::Job& job, std::uint64_t memory = kAnyMemory,
                     const std::optional<RankCounts>& ranks = {});

/// Checks a job before a rank starts, on any machine that sees its data sets: the data sets, the model, whether they
/// fit together, and the number of steps. `memory`: bytes of the node that one rank may use, or those of this machine
/// that RankCounts::here ranks may use together. `ranks`: those of the job, as for check_plan(), if they are known.
/// Returns a description of the training for people. Throws ConfigError or StorageError, as a rank would.
std::string check_job(const config::Job& job, std::uint64_t memory = kAnyMemory,
                      const std::optional<RankCounts>& ranks = {});

}  // namespace distdl::app
