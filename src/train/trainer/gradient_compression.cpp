// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include <distdl/base/clock.hpp>
#include <distdl/base/log.hpp>
#include <distdl/train/trainer/gradient_compression.hpp>

namespace distdl::train {
namespace {
using parallel::Compression;
constexpr std::int64_t kFirst = 2, kLater = 16;  ///< steps from one decision to the next
constexpr Compression kChoices[] = {Compression::none, Compression::bf16, Compression::int8};
}  // namespace

GradientCompression::GradientCompression(const parallel::Options& options, comm::Communicator& communicator,
                                         const kernels::Backend& backend, const tensor::ArenaLayout& layout,
                                         std::span<const parallel::Bucket> buckets)
    : options_(options),
      communicator_(communicator),
      layout_(layout),
      compressed_(communicator, options, layout, buckets) {
  require(backend.memory_is_host(),
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
  const auto here = communicator_.ranks_on_host_of(communicator_.rank()).size();
  if (here == static_cast<std::size_t>(communicator_.size())) {  // whose processors do the work of a sum
    if (communicator_.rank() == Rank(0))
      log(Severity::info, "parallel.compression = \"auto\" is \"none\": all ranks are on one host");
    return;
  }
  std::vector<parallel::CompressionChoice::Candidate> candidates;
  std::vector<double> seconds;
  for (const Compression each : kChoices) {
    compressed_.use(each);
    candidates.push_back({each, static_cast<double>(compressed_.bytes_per_step()), 0});
    seconds.push_back(each == Compression::none ? 0 : compressed_.measure_codec());
  }
  compressed_.use(kChoices[0]);
  communicator_
      .all_reduce(comm::Vector(seconds.data(), seconds.size(), comm::DataType::float64),
                  {.reduction = comm::Reduction::maximum})
      .wait();
  for (std::size_t i = 0; i < candidates.size(); ++i) candidates[i].codec_seconds = seconds[i];
  choice_.emplace(candidates);
  until_ = kFirst;
}

void GradientCompression::begin_step(Step step) {
  if (!parallel::warms_up(options_.compression)) return;
  const bool is_warm = step.value >= options_.compression_warmup_steps;
  const Compression wanted = is_warm ? Compression(options_.compression) : parallel::kWarmup;
  if (wanted != compressed_.in_use()) compressed_.use(wanted);
}

std::optional<std::string> GradientCompression::step_done(double sum_seconds, double waited_seconds) {
  if (!choice_) return std::nullopt;
  if (steps_ == 0) least_ = {sum_seconds, waited_seconds};
  least_ = {std::min(least_[0], sum_seconds), std::min(least_[1], waited_seconds)};
  if (++steps_ < until_) return std::nullopt;
  steps_ = 0;
  until_ = kLater;
  // The rank that begins last waits for no other one.
  communicator_
      .all_reduce(comm::Vector(least_.data(), least_.size(), comm::DataType::float64),
                  {.reduction = comm::Reduction::minimum})
      .wait();
  if (!choice_->decide(least_[0], least_[1])) return std::nullopt;
  compressed_.use(choice_->present());
  auto reason = fmt::format("the sums of a step cost: {}", choice_->times());
  if (communicator_.rank() == Rank(0))
    log(Severity::info, "parallel.compression is \"{}\" from now on; {}", in_use(), reason);
  return reason;
}

}  // namespace distdl::train
