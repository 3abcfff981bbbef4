// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include <distdl/records/steps.hpp>

namespace distdl::train {

/// The requests of a rank to all ranks after a step, or those of all ranks together.
struct StepRequests {
  bool stop = false, save = false;
};

/// The result of a finished step on one rank. Times are in seconds.
struct StepResult {
  StepRequests agreed;  ///< the requests of all ranks together
  /// The record of the step, with all that an engine measures. The loop adds the step, epochs, speed and utilization.
  records::StepDone record = {};
  /// Time of this rank's microbatches, without waiting; on a GPU not in each step.
  std::optional<double> compute_seconds = {};
  std::optional<double> audit_seconds = {};  ///< time of the audit before this step, if there was one
  /// The reason if the next step has another compression.
  std::optional<std::string> compression_change = {};
};

}  // namespace distdl::train
