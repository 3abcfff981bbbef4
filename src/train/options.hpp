// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include <distdl/base/one_of.hpp>

namespace distdl::train {

/// The metric by which evaluations are compared.
enum class Metric { loss, accuracy };
constexpr std::array<Named<Metric>, 2> choices_of(Metric) {
  return {{
      {Metric::loss, "loss", "lower is better"},
      {Metric::accuracy, "accuracy", "higher is better"},
  }};
}

struct Options {
  std::int64_t epochs = 8;
  std::int64_t steps = 0;           ///< length of the run in optimizer steps; 0: given by the epochs
  std::int64_t end_at_step = 0;     ///< finish after this step, as a part of the whole length; 0: none
  std::int64_t seed = 1;            ///< seed of the initial parameters and the sample order
  std::int64_t evaluate_every = 1;  ///< epochs between evaluations; 0: none after epochs
  /// Steps between evaluations; 0: none after steps; the last step is always evaluated.
  std::int64_t evaluate_every_steps = 0;
  OneOf<Metric> best_metric = Metric::loss;  ///< metric by which evaluations are compared
  double best_min_delta = 0;                 ///< amount by which an evaluation must be better than the best one before
  /// Each best evaluation so far is saved, and the tag "best" is given to that checkpoint, which is then not deleted.
  bool keep_best = false;
  /// Evaluations in a row that are not better, after which the run ends; 0: never.
  std::int64_t stop_early_patience = 0;
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
  visit("train.end_at_step", options.end_at_step,
        "finish after this step, with the learning rates of the whole length; with a later one, or 0 (none), the same "
        "run "
        "goes on");
  visit("train.seed", options.seed, "seed of the initial parameters and of the sample order");
  visit("train.evaluate_every", options.evaluate_every,
        "epochs between evaluations; 0: only at the end and after train.evaluate_every_steps");
  visit("train.evaluate_every_steps", options.evaluate_every_steps,
        "steps between evaluations, besides those after epochs; 0: none");
  visit("train.best_metric", options.best_metric,
        OneOf<Metric>::help("by which evaluations are compared, for train.keep_best and train.stop_early_patience"));
  visit("train.best_min_delta", options.best_min_delta,
        "by how much more than this an evaluation must be better than the best one before");
  visit(
      "train.keep_best", options.keep_best,
      "save the state of each evaluation that is the best so far, and give that checkpoint the tag \"best\": it is not "
      "deleted, and \"distdl evaluate RUN@best\" uses it");
  visit("train.stop_early_patience", options.stop_early_patience,
        "end the run after so many evaluations in a row that are not better than the best one before; 0: never");
  visit("train.audit_every", options.audit_every,
        "steps between audits: ranks recompute a microbatch of each other and compare their parameters, which finds "
        "silent corruption; 0: none");
  visit("train.check_resumed_loss", options.check_resumed_loss,
        "after a restore, the first step must give the loss that metrics.jsonl has of an earlier start, bit by bit");
  visit("train.stop_margin_seconds", options.stop_margin_seconds,
        "seconds to spare before the end of the job, in addition to the measured time of a save");
  visit(
      "train.balance", options.balance,
      "move microbatches from ranks that are slow to others, and parameters from servers that are slow, while the run "
      "goes on; the result stays the same");
}

}  // namespace distdl::train
