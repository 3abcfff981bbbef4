// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <distdl/parallel/compression_choice.hpp>

namespace distdl::parallel {
namespace {
constexpr double kGain = 0.03;     ///< least gain of a change, as a fraction of the time of sums
constexpr double kChanged = 0.25;  ///< relative change of that time from which on the network counts as changed
}  // namespace

CompressionChoice::CompressionChoice(const std::vector<Candidate>& candidates) {
  for (const auto& candidate : candidates) known_.push_back({candidate});
}

/// Hidden work of a codec costs time, too: it takes a processor from the training thread.
double CompressionChoice::cost_of(const Candidate& candidate, double sum_seconds, double waited_seconds) {
  const double hidden = sum_seconds > 0 ? std::max(0.0, 1 - waited_seconds / sum_seconds) : 0;
  return waited_seconds + candidate.codec_seconds * hidden;
}

bool CompressionChoice::decide(double sum_seconds, double waited_seconds) {
  Known& now = known_[present_];
  const bool has_changed = sum_ > 0 && std::abs(sum_seconds - sum_) > kChanged * sum_;
  if (has_changed) hidden_ = 0;
  for (Known& each : known_)
    if (has_changed) each.measured.reset();
  hidden_ = std::max(hidden_, sum_seconds - waited_seconds);
  now.measured = cost_of(now.candidate, sum_seconds, waited_seconds);
  const double sent = std::max(sum_seconds - now.candidate.codec_seconds, sum_seconds * kGain);
  for (Known& each : known_) {
    const double sum = each.candidate.codec_seconds + sent * each.candidate.bytes / now.candidate.bytes;
    each.cost = each.measured.value_or(cost_of(each.candidate, sum, std::max(0.0, sum - hidden_)));
  }
  const auto best = std::ranges::min_element(known_, {}, &Known::cost);
  const bool changes = best->cost < *now.measured - kGain * sum_seconds;
  sum_ = changes ? 0 : sum_seconds;
  if (changes) present_ = static_cast<std::size_t>(best - known_.begin());
  return changes;
}

std::string CompressionChoice::times() const {
  std::string text;
  for (const Known& each : known_)
    text += fmt::format("{}{} {:.3g} ms{}", text.empty() ? "" : ", ", OneOf(each.candidate.compression).name(),
                        each.cost * 1e3, each.measured ? "" : " predicted");
  return text;
}

}  // namespace distdl::parallel
