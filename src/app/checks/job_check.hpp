// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include <distdl/config/job.hpp>

namespace distdl::app {

inline constexpr std::uint64_t kAnyMemory = std::numeric_limits<std::uint64_t>::max();

struct JobFacts {
  std::string text;               ///< what the job trains, for people
  std::uint64_t state_bytes = 0;  ///< of a checkpoint, nearly
};

/// As check_job(), of which it tells more.
JobFacts examine_job(const config::Job& job, std::uint64_t memory = kAnyMemory);

/// What can be found wrong with a job on any machine that sees its data sets, before a rank starts: the data sets, the
/// model, how the two fit, the number of steps. `memory`: bytes of the node that one rank may fill. Returns what the
/// job trains, for people. Throws ConfigError or StorageError, as a rank would.
std::string check_job(const config::Job& job, std::uint64_t memory = kAnyMemory);

}  // namespace distdl::app
