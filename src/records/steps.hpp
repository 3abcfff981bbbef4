// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <distdl/base/ids.hpp>
#include <distdl/records/field.hpp>

// Rows of metrics.jsonl. They have no field `event`: a row with an evaluation's loss or accuracy is one of an
// evaluation, any other row with a step is one of a step.
namespace distdl::records {

struct StepDone {
  static constexpr Kind kKind{"step", "one optimizer step: the rows with `loss`", {}, File::metrics};

  Step step;                            ///< steps done, including this one
  double epoch = 0;                     ///< epochs done, as a fraction
  std::optional<double> loss = {};      ///< mean over the global batch, nats per label
  std::optional<double> accuracy = {};  ///< share of the global batch, 0 .. 1
  std::optional<double> learning_rate = {}, samples_per_s = {};
  std::optional<double> waited_seconds = {};  ///< time of this step in which this rank waited for samples
  std::optional<double> gradient_norm = {};   ///< before clipping; only with clipping
  std::optional<double> loss_scale = {};      ///< the factor of this step; only with float16
  bool skipped = false;                       ///< its gradients overflowed and were not applied
  /// With several ranks: the time that the sums of the gradients took, and that part of it in which this rank waited
  /// for them.
  std::optional<double> sum_seconds = {}, sum_waited_seconds = {};
  /// With a pipeline: the time of the stages' passes, and that part of it in which a rank of it waited for other
  /// stages, on average; and the time in which the rank that waited least did not.
  std::optional<double> pipeline_seconds = {}, pipeline_waited_seconds = {}, pipeline_busiest_seconds = {};
  std::string compression = {};  ///< how gradients are sent: "int8"; empty: parallel.compression is "none"
  /// Where the peak was measured: the utilization of the hardware, 0 .. 1, by the model's FLOPs; with recomputation
  /// also by all FLOPs. PaLM, Chowdhery et al. 2022, appendix B.
  std::optional<double> mfu = {}, hfu = {};
  /// With a parameter server, at the end of a round: for each number of updates that the parameters of a gradient
  /// lacked, how many updates of a range had that many. Else empty.
  std::vector<std::int64_t> staleness = {};
  /// The other metrics of a program (run.command), by name; lists of one length.
  std::vector<std::string> names = {};
  std::vector<double> values = {};
  bool is_followed = false;  ///< further steps of the same round follow at once
};

void describe(Is<StepDone> auto& r, auto&& visit) {
  visit("step", r.step, "steps", "optimizer steps done, including this one", "distdl_step");
  visit("epoch", r.epoch, "epochs", "epochs done, as a fraction", "distdl_epoch");
  visit("loss", r.loss, "nats per label", "mean over the global batch", "distdl_loss");
  visit("accuracy", r.accuracy, "0 .. 1", "of the global batch", "distdl_accuracy_ratio");
  visit("learning_rate", r.learning_rate, "", "of this step", "distdl_learning_rate");
  visit("samples_per_s", r.samples_per_s, "samples per second", "of this step", "distdl_samples_per_second");
  visit("waited_seconds", r.waited_seconds, "seconds", "part of the step in which rank 0 waited for samples",
        "distdl_waited_seconds");
  visit("gradient_norm", r.gradient_norm, "", "before clipping; with optim.clip_norm", "distdl_gradient_norm");
  visit("loss_scale", r.loss_scale, "", "of the gradients; with kernels.precision fp16", "distdl_loss_scale");
  visit("skipped", if_any(r.skipped), "", "true: the gradients overflowed and were not applied");
  visit("sum_seconds", r.sum_seconds, "seconds", "time of the sums of the gradients; with several ranks",
        "distdl_sum_seconds");
  visit("sum_waited_seconds", r.sum_waited_seconds, "seconds", "part of it in which rank 0 waited for them",
        "distdl_sum_waited_seconds");
  visit("pipeline_seconds", r.pipeline_seconds, "seconds", "time of the stages' passes; with pipelines",
        "distdl_pipeline_seconds");
  visit("pipeline_waited_seconds", r.pipeline_waited_seconds, "seconds",
        "part of it in which a rank waited for other stages, on average", "distdl_pipeline_waited_seconds");
  visit("pipeline_busiest_seconds", r.pipeline_busiest_seconds, "seconds",
        "that part of it in which the rank that waited least did not", "distdl_pipeline_busiest_seconds");
  visit("compression", if_any(r.compression), "",
        "of the gradients, of a round of local SGD, or of what workers of a parameter server push and pull; unless "
        "parallel.compression is \"none\"");
  visit("mfu", r.mfu, "0 .. 1",
        "utilization of the hardware by the model's FLOPs in this step; where the peak was measured, see "
        "docs/performance.md",
        "distdl_mfu_ratio");
  visit("hfu", r.hfu, "0 .. 1",
        "the same by all FLOPs; where activations are computed again, and the peak was measured", "distdl_hfu_ratio");
  visit("staleness", if_any(r.staleness), "updates",
        "with a parameter server, of the round that ends: a list, for each number of updates that a gradient's "
        "parameters lacked, of how many updates of a range had that many; its last number, 255, stands for more, too");
  visit("names", if_any(r.names), "", "a list: the names of the other metrics of a program (run.command)");
  visit("values", if_any(r.values), "", "a list: their values");
}

/// Lists of different lengths are dropped.
void mend(StepDone& done);

struct Evaluated {
  static constexpr Kind kKind{"evaluation", "one evaluation: the rows with `validation_loss`", {}, File::metrics};

  Step step;
  double epoch = 0;
  std::optional<double> loss = {}, accuracy = {};
  std::int64_t samples = 0;       ///< number of samples that all ranks together evaluated
  std::optional<Step> best = {};  ///< step of the best evaluation so far, see train.best_metric; empty: not compared
};

void describe(Is<Evaluated> auto& r, auto&& visit) {
  visit("step", r.step, "steps", kStepMeaning);
  visit("epoch", r.epoch, "epochs", "epochs done, as a fraction");
  visit("validation_loss", r.loss, "nats per label", "mean over the validation data", "distdl_validation_loss");
  visit("validation_accuracy", r.accuracy, "0 .. 1", "of the validation data", "distdl_validation_accuracy_ratio");
  visit("best_step", r.best, "steps",
        "of the best evaluation so far; with train.keep_best or train.stop_early_patience", "distdl_best_step");
}

}  // namespace distdl::records
