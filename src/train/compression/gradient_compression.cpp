// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include <distdl/base/log.hpp>
#include <distdl/train/compression/gradient_compression.hpp>

namespace distdl::train {
namespace {
using parallel::Compression;

/// Least root of an element's second moment, as a share of the largest root in its tensor: an element that had no
/// gradients so far may get some.
constexpr float kLeastRoot = 0.01F;
}  // namespace

bool all_labels_count(const kernels::LossSpec& loss) {
  const auto* const classes = std::get_if<kernels::CrossEntropy>(&loss);
  return classes == nullptr || !classes->ignore;
}

GradientCompression::GradientCompression(const parallel::Options& options, const optim::Options& optimizer,
                                         const Sums& sums, const kernels::Backend& backend, bool all_labels_count)
    : options_(options),
      optimizer_(optimizer),
      communicator_(sums.summing),
      world_(sums.world),
      layout_(sums.layout),
      all_labels_count_(all_labels_count),
      compressed_(communicator_, options_, layout_, sums.whole, sums.buckets) {
  require(backend.memory_is_host() || parallel::row_of(options_.strategy).has_groups,
          "parallel.compression = \"{}\" needs what it encodes in host memory, but the backend is {}: use \"none\"",
          options_.compression.encoding, backend.description());
}

void GradientCompression::allocate(TrainingState& state) {
  const bool has_groups = parallel::row_of(options_.strategy).has_groups;
  state.compression = parallel::make_compression_state(options_, layout_);
  compressed_.set_state(state.compression);
  if (communicator_.size() > 1 && world_.rank() == Rank(0))
    log(Severity::info, "{} are compressed (parallel.compression = \"{}\"): the result depends on the number of {}, {}",
        has_groups ? "averages of groups" : "gradients", options_.compression.encoding,
        has_groups ? "ranks" : "replicas", communicator_.size());
  const bool wants_to_hold = parallel::encoding_of(options_.compression.encoding).holds_second_moments && !has_groups;
  if (wants_to_hold && optimizer_.name == "adamw" && !may_hold_second_moments() && communicator_.size() > 1 &&
      world_.rank() == Rank(0))
    log(Severity::warning,
        "parallel.compression = \"{}\" with adamw loses much less where the second moments can stay as they are: that "
        "needs parallel.strategy = \"replicas\", optim.clip_norm = 0 (here {}), parallel.compression_warmup_steps "
        "above 0 (here {}), and no labels that "
        "the loss ignores",
        options_.compression.encoding, optimizer_.clip_norm, options_.compression.warmup_steps);
  if (options_.compression.encoding == Compression::automatic) begin_choice();
}

void GradientCompression::begin_choice() {
  choosing_.emplace(world_, [this](Compression each) {
    compressed_.use(each);
    return CompressionChoosing::Candidate{each, static_cast<double>(compressed_.bytes_per_step()),
                                          each == Compression::none ? 0 : compressed_.measure_codec()};
  });
  compressed_.use(choosing_->present());
}

void GradientCompression::begin_step(TrainingState& state, const std::function<void()>& before_update) {
  compressed_.set_scale(state.loss_scale.value());
  if (!parallel::encoding_of(options_.compression.encoding).warms_up) return;  // with "auto", measurements decide
  const bool may_hold = may_hold_second_moments();
  Compression wanted = options_.compression.in_use(state.step.value);
  // Those that are held have to come from what is nearly exact.
  if (may_hold && state.updates - state.held_updates < options_.compression.warmup_steps) wanted = parallel::kWarmup;
  if (wanted != compressed_.in_use()) compressed_.use(wanted);
  const bool held = std::exchange(holds_, may_hold && wanted == options_.compression.encoding);
  if (!holds_) return compressed_.code_moments({});
  if (!held) begin_to_hold(state, before_update);
  compressed_.code_moments(parallel::Moments{state.optimizer[0].memory.as<float>().data(),
                                             state.optimizer[1].memory.as<float>().data(),
                                             static_cast<float>(optimizer_.beta1)});
}

void GradientCompression::skip(TrainingState& state) {
  for (const auto* const memory : {&state.compression.residual, &state.compression.right})
    std::ranges::fill(memory->as<float>(), 0.0F);
}

bool GradientCompression::codes_moments() const {
  return parallel::encoding_of(options_.compression.encoding).holds_second_moments &&
         options_.strategy == parallel::Strategy::replicas && optimizer_.name == "adamw";
}

/// True if the second moments may stay as they are. Clipping excludes that: its norm of the gradients would be the norm
/// of what the code lacks. Ignored labels exclude it: the factor of a gradient is then known only after its sum.
bool GradientCompression::may_hold_second_moments() const {
  return codes_moments() && all_labels_count_ && optimizer_.clip_norm == 0 && options_.compression.warmup_steps > 0 &&
         communicator_.size() > 1;
}

/// The second moments get their least values: those that they have already, where this was done before.
void GradientCompression::begin_to_hold(TrainingState& state, const std::function<void()>& before_update) {
  before_update();
  const auto squares = state.optimizer[1].memory.as<float>();
  for (const auto& view : layout_.tensors()) {
    if (view.role != tensor::Role::parameter || view.count == 0) continue;
    const auto own = squares.subspan(view.offset, view.count);
    const float least = kLeastRoot * kLeastRoot * std::ranges::max(own);
    for (float& square : own) square = std::max(square, least);
  }
  if (world_.rank() == Rank(0))
    log(Severity::info,
        "AdamW's second moments stay as they are, and its first ones are coded (parallel.compression = \"{}\", after "
        "parallel.compression_warmup_steps)",
        options_.compression.encoding);
}

std::optional<std::string> GradientCompression::step_done(double sum_seconds, double waited_seconds) {
  if (!choosing_) return std::nullopt;
  auto reason = choosing_->steps_done(1, sum_seconds, waited_seconds);
  if (reason) compressed_.use(choosing_->present());
  return reason;
}

}  // namespace distdl::train
