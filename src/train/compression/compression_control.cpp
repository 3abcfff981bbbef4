// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include <distdl/base/log.hpp>
#include <distdl/train/compression/compression_control.hpp>

namespace distdl::train {
namespace {
constexpr std::int64_t kFirst = 2, kLater = 16;  ///< steps from one decision to the next
}  // namespace

CompressionChoosing::CompressionChoosing(comm::Communicator& communicator, const CostOf& cost_of)
    : communicator_(communicator), until_(kFirst) {
  const auto here = communicator_.ranks_on_host_of(communicator_.rank()).size();
  if (here == static_cast<std::size_t>(communicator_.size())) {  // whose processors do the work of a sum
    if (communicator_.rank() == Rank(0))
      log(Severity::info, "parallel.compression = \"auto\" is \"none\": all ranks are on one host");
    return;
  }
  std::vector<Candidate> candidates;
  std::vector<double> numbers;
  for (const parallel::Encoding& each : parallel::kEncodings) {
    if (!each.is_candidate) continue;
    candidates.push_back(cost_of(each.name.value));
    numbers.push_back(candidates.back().bytes);
    numbers.push_back(candidates.back().codec_seconds);
  }
  communicator_
      .all_reduce(comm::Vector(numbers.data(), numbers.size(), comm::DataType::float64),
                  {.reduction = comm::Reduction::maximum})
      .wait();
  for (std::size_t i = 0; i < candidates.size(); ++i)
    candidates[i].bytes = numbers[2 * i], candidates[i].codec_seconds = numbers[2 * i + 1];
  choice_.emplace(candidates);
}

std::optional<std::string> CompressionChoosing::steps_done(std::int64_t steps, double sum_seconds,
                                                           double waited_seconds) {
  if (!choice_) return std::nullopt;
  if (steps_ == 0) least_ = {sum_seconds, waited_seconds};
  least_ = {std::min(least_[0], sum_seconds), std::min(least_[1], waited_seconds)};
  steps_ += steps;
  if (steps_ < until_) return std::nullopt;
  steps_ = 0;
  until_ = kLater;
  // The rank that begins last waits for no other one.
  communicator_
      .all_reduce(comm::Vector(least_.data(), least_.size(), comm::DataType::float64),
                  {.reduction = comm::Reduction::minimum})
      .wait();
  if (!choice_->decide(least_[0], least_[1])) return std::nullopt;
  auto reason = fmt::format("the sums of a step cost: {}", choice_->times());
  if (communicator_.rank() == Rank(0))
    log(Severity::info, "the compression of gradients is \"{}\" from now on; {}", OneOf(present()).name(), reason);
  return reason;
}

}  // namespace distdl::train
