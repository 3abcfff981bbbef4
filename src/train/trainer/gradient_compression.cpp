// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include <distdl/base/log.hpp>
#include <distdl/train/trainer/gradient_compression.hpp>

namespace distdl::train {
namespace {
using parallel::Compression;

/// Of the root of the mean square of a tensor's gradients, what an element's is taken for at least: one that had none
/// in the warm-up may get some.
constexpr double kLeastRoot = 0.1;

double mean(std::span<const float> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}
}  // namespace

GradientCompression::GradientCompression(const parallel::Options& options, const optim::Options& optimizer,
                                         comm::Communicator& communicator, const kernels::Backend& backend,
                                         const tensor::ArenaLayout& layout, std::span<const parallel::Bucket> buckets)
    : options_(options),
      optimizer_(optimizer),
      communicator_(communicator),
      layout_(layout),
      compressed_(communicator, options_, layout, buckets) {
  require(backend.memory_is_host() || options_.strategy == parallel::Strategy::local_sgd,
          "parallel.compression = \"{}\" needs what it encodes in host memory, but the backend is {}: use \"none\"",
          options_.compression, backend.description());
}

void GradientCompression::allocate(TrainingState& state) {
  state.compression = parallel::make_compression_state(options_, layout_);
  compressed_.set_state(state.compression);
  if (communicator_.size() > 1 && communicator_.rank() == Rank(0))
    log(Severity::info,
        "{} are compressed (parallel.compression = \"{}\"): the result depends on the number of ranks, {}",
        options_.strategy == parallel::Strategy::local_sgd ? "averages of groups" : "gradients", options_.compression,
        communicator_.size());
  if (options_.compression == Compression::automatic) begin_choice();
}

void GradientCompression::begin_choice() {
  choosing_.emplace(communicator_, [this](Compression each) {
    compressed_.use(each);
    return CompressionChoosing::Candidate{each, static_cast<double>(compressed_.bytes_per_step()),
                                          each == Compression::none ? 0 : compressed_.measure_codec()};
  });
  compressed_.use(choosing_->present());
}

void GradientCompression::begin_step(TrainingState& state) {
  if (!parallel::warms_up(options_.compression)) return;  // with "auto", measurements decide
  const Compression wanted = parallel::compression_of(options_, state.step.value);
  if (wanted != compressed_.in_use()) compressed_.use(wanted);
  holds_ = is_held(state);
  if (!holds_) return compressed_.code_moments({});
  if (state.held_updates == 0) begin_to_hold(state);
  compressed_.code_moments(parallel::Moments{state.optimizer[0].memory.as<float>().data(),
                                             state.optimizer[1].memory.as<float>().data(),
                                             static_cast<float>(optimizer_.beta1)});
}

/// A norm of gradients, by which they are clipped, would be that of what the code lacks.
bool GradientCompression::is_held(const TrainingState& state) const {
  const std::int64_t warmup = options_.compression_warmup_steps;
  return (options_.compression == Compression::onebit || options_.compression == Compression::topk) &&
         options_.strategy == parallel::Strategy::replicas && optimizer_.name == "adamw" && optimizer_.clip_norm == 0 &&
         warmup > 0 && state.step.value >= warmup && state.updates - state.held_updates >= warmup;
}

/// The second moments get their least values.
void GradientCompression::begin_to_hold(TrainingState& state) const {
  const auto squares = state.optimizer[1].memory.as<float>();
  const double of_all = mean(squares);
  for (const auto& view : layout_.tensors()) {
    if (view.role != tensor::Role::parameter) continue;
    const auto own = squares.subspan(view.offset, view.count);
    const double of_tensor = mean(own);
    const auto least = static_cast<float>(kLeastRoot * kLeastRoot * (of_tensor > 0 ? of_tensor : of_all));
    for (float& square : own) square = std::max(square, least);
  }
  if (communicator_.size() > 1 && communicator_.rank() == Rank(0))
    log(Severity::info,
        "from here on AdamW's second moments stay as they are, and its first ones are coded (parallel.compression = "
        "\"{}\", after parallel.compression_warmup_steps)",
        options_.compression);
}

std::optional<std::string> GradientCompression::step_done(double sum_seconds, double waited_seconds) {
  if (!choosing_) return std::nullopt;
  auto reason = choosing_->steps_done(1, sum_seconds, waited_seconds);
  if (reason) compressed_.use(choosing_->present());
  return reason;
}

}  // namespace distdl::train
