// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace distdl::data {

inline constexpr std::int64_t kColours = 3;

/// The bytes of an image, (channels, height, width). Colours are red, green and blue.
struct Pixels {
  std::int64_t channels = 0, height = 0, width = 0;
  std::uint8_t* bytes = nullptr;
  std::size_t plane_size() const { return static_cast<std::size_t>(height * width); }
  std::span<std::uint8_t> plane(std::int64_t channel) const {
    return {bytes + static_cast<std::size_t>(channel) * plane_size(), plane_size()};
  }
};

/// Operations on images in place, with the arithmetic of Pillow, which torchvision and timm use for images from files.
/// Bytes are the same on any processor. Those on colours leave an image alone that has not 3 channels. A factor of 1
/// changes nothing.
void adjust_brightness(const Pixels& image, double factor);
void adjust_contrast(const Pixels& image, double factor);
void adjust_saturation(const Pixels& image, double factor);
void adjust_sharpness(const Pixels& image, double factor);
/// `shift`: a part of the circle of hues, -0.5 to 0.5.
void adjust_hue(const Pixels& image, double shift);
/// Keeps the upper `bits` of each byte, 0 to 8.
void posterize(const Pixels& image, int bits);
/// Inverts bytes from `threshold` on.
void solarize(const Pixels& image, double threshold);
void stretch_contrast(const Pixels& image);
void equalize(const Pixels& image);
/// Takes each pixel (x, y) from the pixel at (m0 x + m1 y + m2, m3 x + m4 y + m5), in coordinates where pixel 0 is from
/// 0 to 1. What is outside becomes 0.
void transform_affine(const Pixels& image, const std::array<double, 6>& m);
/// Turns the image around its centre, counterclockwise.
void rotate(const Pixels& image, double degrees);

}  // namespace distdl::data
