// SPDX-License-Identifier: Apache-2.0
// Cubuk et al., "RandAugment: Practical automated data augmentation with a reduced search space", 2019; operations,
// magnitudes and their order as in torchvision.
#include <cmath>

#include <distdl/data/transforms/rand_augment.hpp>
#include <distdl/data/transforms/transform.hpp>

namespace distdl::data {
namespace {
constexpr double kMostShift = 150.0 / 331.0, kMostThreshold = 255;
constexpr int kMostLostBits = 4;

/// From `first` to `last`, in single precision and from the nearer end, as torch.linspace has them.
double at_magnitude(double first, double last, std::int64_t magnitude) {
  const auto from = static_cast<float>(first), to = static_cast<float>(last);
  const float step = (to - from) / static_cast<float>(kMagnitudes - 1);
  return static_cast<double>(magnitude < kMagnitudes / 2 ? from + step * static_cast<float>(magnitude)
                                                         : to - step * static_cast<float>(kMagnitudes - 1 - magnitude));
}

double shear_of(std::int64_t magnitude, std::int64_t) {
  return at_magnitude(0, 0.3, magnitude);
}
double angle_of(std::int64_t magnitude, std::int64_t) {
  return at_magnitude(0, 30, magnitude);
}
double factor_of(std::int64_t magnitude, std::int64_t) {
  return at_magnitude(0, 0.9, magnitude);
}
double translation_of(std::int64_t magnitude, std::int64_t extent) {
  return std::trunc(at_magnitude(0, kMostShift * static_cast<double>(extent), magnitude));
}
double no_magnitude(std::int64_t, std::int64_t) {
  return 0;
}
}  // namespace

std::span<const RandomOperation> random_operations() {
  static const std::array all{
      RandomOperation{"Identity", &no_magnitude, false, [](const Pixels&, double) {}},
      RandomOperation{"ShearX", &shear_of, true,
                      [](const Pixels& image, double by) {
                        transform_affine(image, {1, by, 0, 0, 1, 0});
                      }},
      RandomOperation{"ShearY", &shear_of, true,
                      [](const Pixels& image, double by) {
                        transform_affine(image, {1, 0, 0, by, 1, 0});
                      }},
      RandomOperation{"TranslateX", &translation_of, true,
                      [](const Pixels& image, double by) {
                        transform_affine(image, {1, 0, -by, 0, 1, 0});
                      }},
      RandomOperation{"TranslateY", &translation_of, true,
                      [](const Pixels& image, double by) {
                        transform_affine(image, {1, 0, 0, 0, 1, -by});
                      }},
      RandomOperation{"Rotate", &angle_of, true, &rotate},
      RandomOperation{"Brightness", &factor_of, true,
                      [](const Pixels& image, double by) { adjust_brightness(image, 1 + by); }},
      RandomOperation{"Color", &factor_of, true,
                      [](const Pixels& image, double by) { adjust_saturation(image, 1 + by); }},
      RandomOperation{"Contrast", &factor_of, true,
                      [](const Pixels& image, double by) { adjust_contrast(image, 1 + by); }},
      RandomOperation{"Sharpness", &factor_of, true,
                      [](const Pixels& image, double by) { adjust_sharpness(image, 1 + by); }},
      RandomOperation{"Posterize",
                      [](std::int64_t magnitude, std::int64_t) {
                        return 8 - std::nearbyint(static_cast<double>(magnitude * kMostLostBits) / (kMagnitudes - 1));
                      },
                      false, [](const Pixels& image, double by) { posterize(image, static_cast<int>(by)); }},
      RandomOperation{"Solarize",
                      [](std::int64_t magnitude, std::int64_t) { return at_magnitude(kMostThreshold, 0, magnitude); },
                      false, &solarize},
      RandomOperation{"AutoContrast", &no_magnitude, false,
                      [](const Pixels& image, double) { stretch_contrast(image); }},
      RandomOperation{"Equalize", &no_magnitude, false, [](const Pixels& image, double) { equalize(image); }},
  };
  return all;
}

namespace {
void augment(const Options& options, Draws& draws, const Pixels& image) {
  const auto all = random_operations();
  for (std::int64_t i = 0; i < options.rand_augment; ++i) {
    const auto& operation = all[static_cast<std::size_t>(draws.below(std::ssize(all)))];
    const bool is_down = operation.name == "TranslateY";
    double by = operation.strength(options.rand_augment_magnitude, is_down ? image.height : image.width);
    if (operation.is_signed && draws.below(2) == 1) by = -by;
    operation.apply(image, by);
  }
}
}  // namespace

Transform rand_augment() {
  return {.name = "RandAugment",
          .stream = 0x72616e64,
          .is_used = [](const Options& options) { return options.rand_augment > 0; },
          .pixels = &augment};
}

}  // namespace distdl::data
