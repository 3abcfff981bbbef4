// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include <distdl/observe/tensorboard/histogram.hpp>

namespace distdl::observe {
namespace {
/// The upper ends of the buckets, which do not belong to them.
std::vector<double> make_bucket_ends() {
  constexpr double kFirst = 1e-12, kLast = 1e20, kFactor = 1.1;
  std::vector<double> positive;
  double next = kFirst;
  while (next < kLast) {
    positive.push_back(next);
    next *= kFactor;
  }
  positive.push_back(std::numeric_limits<double>::max());
  std::vector<double> ends;
  std::transform(positive.rbegin(), positive.rend(), std::back_inserter(ends), [](double end) { return -end; });
  ends.push_back(0);
  ends.insert(ends.end(), positive.begin(), positive.end());
  return ends;
}

const std::vector<double>& bucket_ends() {
  static const std::vector<double> ends = make_bucket_ends();
  return ends;
}
}  // namespace

void Histogram::add(double value) {
  if (!std::isfinite(value)) return;
  const auto& ends = bucket_ends();
  counts_.resize(ends.size());
  const auto bucket = std::upper_bound(ends.begin(), ends.end() - 1, value) - ends.begin();
  ++counts_[static_cast<std::size_t>(bucket)];
  ++count_;
  least_ = std::min(least_, value);
  most_ = std::max(most_, value);
  sum_ += value;
  squares_ += value * value;
}

WireMessage Histogram::message() const {
  WireMessage message;
  if (counts_.empty()) return message;
  const auto has_values = [](double count) { return count > 0; };
  const auto first = std::find_if(counts_.begin(), counts_.end(), has_values) - counts_.begin();
  const auto end = counts_.rend() - std::find_if(counts_.rbegin(), counts_.rend(), has_values);
  message.real(1, least_).real(2, most_).real(3, count_).real(4, sum_).real(5, squares_);
  return message.reals(6, std::span(bucket_ends()).subspan(first, end - first))
      .reals(7, std::span(counts_).subspan(first, end - first));
}

}  // namespace distdl::observe
