// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

namespace distdl::train {

/// The requests of a rank to all ranks after a step, or those of all ranks together.
struct StepRequests {
  bool stop = false, save = false;
};

/// The result of a finished step on one rank. Times are in seconds.
struct StepResult {
  StepRequests agreed;  ///< the requests of all ranks together
  double loss = 0, accuracy = 0, learning_rate = 0;
  double waited_seconds = 0;  ///< time of waiting for samples
  /// Time of this rank's microbatches, without waiting; on a GPU not in each step.
  std::optional<double> compute_seconds = {};
  std::optional<double> norm = {};           ///< norm of the gradients; only with clipping
  std::optional<double> loss_scale = {};     ///< loss scale of this step; only with float16
  bool skipped = false;                      ///< true if there was no update, because the gradients overflowed
  std::optional<double> audit_seconds = {};  ///< time of the audit before this step, if there was one
  /// With several ranks: the time of the sums over the ranks and of the gathers of sharded parameters, and the part of
  /// it in which this rank waited for them, because its backward pass and its update did not hide them.
  std::optional<double> sum_seconds = {}, sum_waited_seconds = {};
  std::string compression = {};  ///< compression of the gradients, or of a round of local SGD; empty: there is none
  /// The reason if the next step has another compression.
  std::optional<std::string> compression_change = {};
  /// With a pipeline: the time of the stages' passes, and that part of it in which a rank waited for other stages, on
  /// average; and the time in which the rank that waited least did not.
  std::optional<double> pipeline_seconds = {}, pipeline_waited_seconds = {}, pipeline_busiest_seconds = {};
};

}  // namespace distdl::train
