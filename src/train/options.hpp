// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace distdl::train {

struct Options {
  std::int64_t epochs = 8;
  std::int64_t steps = 0;           ///< length of the run in optimizer steps; 0: given by the epochs
  std::int64_t seed = 1;            ///< seed of the initial parameters and the sample order
  std::int64_t evaluate_every = 1;  ///< epochs between evaluations; 0: none after epochs
  /// Steps between evaluations; 0: none after steps; the last step is always evaluated.
  std::int64_t evaluate_every_steps = 0;
  /// Steps between audits (docs/recovery.md, "Silent corruption"); 0: none.
  std::int64_t audit_every = 0;
  /// Whether a start that resumes compares the loss of its first step with the recorded one.
  bool check_resumed_loss = true;
  /// Spare time before the end of the job, in addition to the measured time of a save.
  double stop_margin_seconds = 15;
  bool balance = true;  ///< microbatches move away from slow ranks; the bytes of the result stay the same
};

template <class Visitor>
void describe(Options& options, Visitor&& visit) {
  visit("train.epochs", options.epochs, "number of passes over all samples");
  visit("train.steps", options.steps, "length of the run in optimizer steps; 0: given by train.epochs");
  visit("train.seed", options.seed, "seed of the initial parameters and of the sample order");
  visit("train.evaluate_every", options.evaluate_every,
        "epochs between evaluations; 0: only at the end and after train.evaluate_every_steps");
  visit("train.evaluate_every_steps", options.evaluate_every_steps,
        "steps between evaluations, besides those after epochs; 0: none");
  visit("train.audit_every", options.audit_every,
        "steps between audits: ranks recompute a microbatch of each other and compare their parameters, which finds "
        "silent corruption; 0: none");
  visit("train.check_resumed_loss", options.check_resumed_loss,
        "after a restore, the first step must give the loss that metrics.jsonl has of an earlier start, bit by bit");
  visit("train.stop_margin_seconds", options.stop_margin_seconds,
        "seconds to spare before the end of the job, in addition to the measured time of a save");
  visit("train.balance", options.balance,
        "move microbatches from ranks that are slow to others while the run goes on; the result stays the same");
}

}  // namespace distdl::train
