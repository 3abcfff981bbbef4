// SPDX-License-Identifier: Apache-2.0
#include <distdl/base/log.hpp>
#include <distdl/train/trainer/gradient_compression.hpp>

namespace distdl::train {
namespace {
using parallel::Compression;
}  // namespace

GradientCompression::GradientCompression(const parallel::Options& options, comm::Communicator& communicator,
                                         const kernels::Backend& backend, const tensor::ArenaLayout& layout,
                                         parallel::GradientSum& sum)
    : options_(options),
      communicator_(communicator),
      layout_(layout),
      compressed_(communicator, options, layout, sum.buckets()) {
  require(backend.memory_is_host(),
          "parallel.compression = \"{}\" needs gradients in host memory, but the backend is {}: use \"none\"",
          options.compression, backend.description());
  sum.compress_with(compressed_);
}

void GradientCompression::allocate(TrainingState& state) {
  state.compression = parallel::make_compression_state(options_, layout_);
  compressed_.set_state(state.compression);
  if (communicator_.size() > 1 && communicator_.rank() == Rank(0))
    log(Severity::info,
        "gradients are compressed (parallel.compression = \"{}\"): the result depends on the number of ranks, {}",
        options_.compression, communicator_.size());
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

std::optional<std::string> GradientCompression::step_done(double sum_seconds, double waited_seconds) {
  if (!choosing_) return std::nullopt;
  auto reason = choosing_->steps_done(1, sum_seconds, waited_seconds);
  if (reason) compressed_.use(choosing_->present());
  return reason;
}

}  // namespace distdl::train
