// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include <distdl/base/log.hpp>
#include <distdl/train/compression/server_compression.hpp>

namespace distdl::train {
using parallel::Compression;

ServerCompression::ServerCompression(const parallel::Options& options, comm::Communicator& world,
                                     const tensor::ArenaLayout& layout, std::vector<optim::Elements> ranges,
                                     int holders, const Messages& messages)
    : options_(options),
      wanted_(options.compression.encoding),
      world_(world),
      layout_(layout),
      ranges_(std::move(ranges)),
      holders_(holders),
      messages_(messages) {}

void ServerCompression::allocate(TrainingState& state) {
  state.compression = parallel::make_compression_state(options_, layout_);
  state.compression.holders = holders_;
  state_ = &state.compression;
  if (world_.rank() == Rank(0))
    log(Severity::info,
        "what workers push and pull is compressed (parallel.compression = \"{}\"): the result depends on the ranks, "
        "and "
        "on which worker computes what",
        options_.compression.encoding);
  Compression first = options_.compression.encoding;
  if (first == Compression::automatic)
    first = choosing_.emplace(world_, [this](Compression each) { return cost_of(each); }).present();
  use(first);
}

bool ServerCompression::begin_round(Step step) {
  if (!parallel::encoding_of(wanted_).warms_up) return false;
  auto options = options_;
  options.compression.encoding = wanted_;
  const Compression now = options.compression.in_use(step.value);
  if (now == options_.compression.encoding) return false;
  use(now);
  return true;
}

void ServerCompression::set_ranges(std::vector<optim::Elements> ranges) {
  ranges_ = std::move(ranges);
  codes_ = parallel::server::codes_of(options_, layout_, ranges_);
}

void ServerCompression::use(Compression compression) {
  options_.compression.encoding = compression;
  codes_ = parallel::server::codes_of(options_, layout_, ranges_);
  has_residuals_ = true;
}

CompressionChoosing::Candidate ServerCompression::cost_of(Compression compression) {
  use(compression);
  CompressionChoosing::Candidate candidate{compression};
  const auto add = [&](const std::vector<parallel::server::RangeCode>& codes, double times) {
    for (const auto& code : codes) {
      candidate.bytes += times * static_cast<double>(code.bytes());
      if (!code.is_plain()) candidate.codec_seconds += times * parallel::measure_codec(code.codec(), code.floats());
    }
  };
  add(codes_.gradients, messages_.pushes);
  add(codes_.parameters, messages_.pulls);
  return candidate;
}

void ServerCompression::encode(const parallel::server::Runtime::Work& work) {
  if (!work.code) return pass_on_residuals(work.gradients);
  std::byte* code = work.code;
  for (std::size_t i = 0; i < ranges_.size(); ++i) {
    const auto& [first, end] = ranges_[i];
    codes_.gradients[i].encode({work.gradients + first, end - first},
                               state_->residual.as<float>().subspan(first, end - first), code);
    code += codes_.gradients[i].bytes();
  }
}

void ServerCompression::pass_on_residuals(float* gradients) {
  if (!std::exchange(has_residuals_, false)) return;
  const auto residual = state_->residual.as<float>();
  compression::add({gradients, residual.size()}, residual);
  std::ranges::fill(residual, 0.0F);
}

std::optional<std::string> ServerCompression::round_done(std::int64_t steps, double waited_seconds) {
  if (!choosing_) return std::nullopt;
  // The work of the other workers hides the messages of one worker, so these cost only the wait.
  auto reason = choosing_->steps_done(steps, waited_seconds, waited_seconds);
  if (reason) use(choosing_->present());
  return reason;
}

}  // namespace distdl::train
