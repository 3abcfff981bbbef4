// SPDX-License-Identifier: Apache-2.0
// torchvision's ColorJitter: brightness, contrast, saturation and hue by random factors, in random order.
#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include <distdl/data/transforms/transform.hpp>

namespace distdl::data {
namespace {
struct Adjustment {
  void (*apply)(const Pixels& image, double factor);
  double middle;  ///< the factor that changes nothing
};
constexpr std::array<Adjustment, 4> kAdjustments{
    {{&adjust_brightness, 1}, {&adjust_contrast, 1}, {&adjust_saturation, 1}, {&adjust_hue, 0}}};

void jitter_colors(const Options& options, Draws& draws, const Pixels& image) {
  std::array<std::size_t, kAdjustments.size()> order{};
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::size_t i = order.size() - 1; i > 0; --i)
    std::swap(order[i], order[static_cast<std::size_t>(draws.below(static_cast<std::int64_t>(i) + 1))]);
  std::array<double, kAdjustments.size()> factors{};
  for (std::size_t i = 0; i < options.color_jitter.size(); ++i) {
    const auto [least, most] = jitter_range(kAdjustments[i].middle, options.color_jitter[i]);
    factors[i] = draws.between(least, most);
  }
  for (const std::size_t i : order)
    if (i < options.color_jitter.size() && options.color_jitter[i] > 0) kAdjustments[i].apply(image, factors[i]);
}
}  // namespace

std::pair<double, double> jitter_range(double middle, double strength) {
  return {middle > 0 ? std::max(0.0, middle - strength) : middle - strength, middle + strength};
}

Transform color_jitter() {
  return {.name = "color jitter",
          .stream = 0x6a6974746572,
          .is_used = [](const Options& options) { return !options.color_jitter.empty(); },
          .pixels = &jitter_colors};
}

}  // namespace distdl::data
