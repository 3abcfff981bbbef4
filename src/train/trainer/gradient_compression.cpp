// SPDX-License-Identifier: Apache-2.0
#include <distdl/base/log.hpp>
#include <distdl/train/trainer/gradient_compression.hpp>

namespace distdl::train {
namespace {
using parallel::Compression;
}  // namespace

GradientCompression::GradientCompression(const parallel::Options& options, comm::Communicator& communicator,
                                         const kernels::Backend& backend, const tensor::ArenaLayout& layout,
                                         std::span<const parallel::Bucket> buckets)
    : options_(options),
      communicator_(communicator),
      layout_(layout),
      compressed_(communicator, options, layout, buckets) {
  require(backend.memory_is_host() || options.strategy == parallel::Strategy::local_sgd,
          "parallel.compression = \"{}\" needs what it encodes in host memory, but the backend is {}: use \"none\"",
          options.compression, backend.description());
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

void GradientCompression::begin_step(Step step) {
  if (!parallel::warms_up(options_.compression)) return;  // with "auto", measurements decide
  const Compression wanted = parallel::compression_of(options_, step.value);
  if (wanted != compressed_.in_use()) compressed_.use(wanted);
}

std::optional<std::string> GradientCompression::step_done(double sum_seconds, double waited_seconds) {
  if (!choosing_) return std::nullopt;
  auto reason = choosing_->steps_done(1, sum_seconds, waited_seconds);
  if (reason) compressed_.use(choosing_->present());
  return reason;
}

}  // namespace distdl::train
