// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <vector>

#include <distdl/data/mixing.hpp>
#include <distdl/data/transforms/mix.hpp>

namespace distdl::data {
namespace {
constexpr std::uint64_t kChoiceStream = 0x63686f696365;

std::vector<Mix> used_mixes(const Options& options) {
  std::vector<Mix> used;
  for (const Mix& mix : mixes())
    if (mix.alpha(options) > 0) used.push_back(mix);
  return used;
}

void append_others(Batch& batch, std::size_t count, const std::vector<std::int32_t>& others, float share) {
  batch.labels.resize(count);
  batch.labels.insert(batch.labels.end(), others.begin(), others.end());
  batch.labels.insert(batch.labels.end(), count, std::bit_cast<std::int32_t>(share));
}
}  // namespace

bool mixes_images(const Options& options) {
  return options.mixup > 0 || options.cutmix > 0;
}

void Mixing::operator()(std::int64_t epoch, std::int64_t sample, const tensor::Shape& image, Batch& batch) const {
  const auto used = used_mixes(options_);
  if (used.empty()) return;
  const auto choice = Draws(seed_, kChoiceStream, epoch, sample).below(std::ssize(used));
  const Mix& mix = used[static_cast<std::size_t>(choice)];
  Draws draws(seed_, mix.stream, epoch, sample);
  const double share = beta(draws, mix.alpha(options_));
  const Mix::Plan plan = mix.plan(draws, share, image);
  const std::size_t count = batch.labels.size();
  const auto size = static_cast<std::size_t>(tensor::element_count(image));
  const auto at = [&](std::size_t i) { return batch.values.data() + i * size; };
  const std::vector<float> last(at(count - 1), at(count - 1) + size);
  for (std::size_t i = count - 1; i > 0; --i) mix.apply(plan, image, at(i), at(i - 1));
  mix.apply(plan, image, at(0), last.data());
  std::vector<std::int32_t> others = batch.labels;
  std::rotate(others.begin(), others.end() - 1, others.end());
  append_others(batch, count, others, plan.share);
}

void with_whole_shares(Batch& batch) {
  append_others(batch, batch.labels.size(), std::vector(batch.labels), 1);
}

}  // namespace distdl::data
