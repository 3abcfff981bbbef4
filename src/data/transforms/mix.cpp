// SPDX-License-Identifier: Apache-2.0
// The table of ways to mix images.
#include <array>
#include <cmath>
#include <numbers>

#include <distdl/data/transforms/mix.hpp>

namespace distdl::data {
namespace {
double open_uniform(Draws& draws) {
  return draws.between(0, 1) + 0x1p-25;  // never 0
}

/// The logarithm of a number from Gamma(alpha, 1), which may be too near to 0 for a number itself. Marsaglia and Tsang,
/// "A simple method for generating gamma variables", 2000.
double log_gamma_draw(Draws& draws, double alpha) {
  const double raised = alpha < 1 ? alpha + 1 : alpha;
  const double d = raised - 1.0 / 3.0, c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double radius = std::sqrt(-2 * std::log(open_uniform(draws)));
    const double normal = radius * std::cos(2 * std::numbers::pi * draws.between(0, 1));
    const double root = 1 + c * normal, cube = root * root * root, accept = std::log(open_uniform(draws));
    if (root <= 0 || accept >= 0.5 * normal * normal + d - d * cube + d * std::log(cube)) continue;
    return std::log(d * cube) + (alpha < 1 ? std::log(open_uniform(draws)) / alpha : 0);
  }
}
}  // namespace

std::span<const Mix> mixes() {
  static const std::array all{mixup(), cutmix()};
  return all;
}

double beta(Draws& draws, double alpha) {
  const double one = log_gamma_draw(draws, alpha), other = log_gamma_draw(draws, alpha);
  return 1 / (1 + std::exp(other - one));
}

}  // namespace distdl::data
