// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include <distdl/data/transforms/pixel_operations.hpp>

namespace distdl::data {
namespace {
constexpr int kMostByte = 255;
using ByteTable = std::array<std::uint8_t, 256>;
using ByteCounts = std::array<std::int64_t, 256>;

template <class Value>
ByteTable byte_table(const Value& value) {
  ByteTable table{};
  for (int i = 0; i <= kMostByte; ++i) table[static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(value(i));
  return table;
}

void look_up(std::span<std::uint8_t> bytes, const ByteTable& table) {
  for (std::uint8_t& byte : bytes) byte = table[byte];
}

ByteCounts counts_in(std::span<const std::uint8_t> bytes) {
  ByteCounts counts{};
  for (const std::uint8_t byte : bytes) ++counts[byte];
  return counts;
}

/// From `from` to `to` and beyond, in single precision; fractions are cut off.
std::uint8_t blend(int from, int to, float factor) {
  const float value = static_cast<float>(from) + factor * static_cast<float>(to - from);
  return static_cast<std::uint8_t>(std::clamp(value, 0.0f, static_cast<float>(kMostByte)));
}

std::uint8_t grey_of(unsigned red, unsigned green, unsigned blue) {
  constexpr unsigned kRed = 19595, kGreen = 38470, kBlue = 7471, kHalf = 0x8000;
  return static_cast<std::uint8_t>((red * kRed + green * kGreen + blue * kBlue + kHalf) >> 16);
}

/// Applies change(red, green, blue) to each pixel of a colour image.
template <class Change>
void change_colours(const Pixels& image, const Change& change) {
  if (image.channels != kColours) return;
  const auto red = image.plane(0), green = image.plane(1), blue = image.plane(2);
  for (std::size_t i = 0; i < red.size(); ++i) change(red[i], green[i], blue[i]);
}

std::int64_t sum_of_greys(const Pixels& image) {
  std::int64_t sum = 0;
  if (image.channels != kColours) {
    for (const std::uint8_t byte : image.plane(0)) sum += byte;
    return sum;
  }
  change_colours(image,
                 [&](std::uint8_t& red, std::uint8_t& green, std::uint8_t& blue) { sum += grey_of(red, green, blue); });
  return sum;
}

void look_up_all(const Pixels& image, const ByteTable& table) {
  for (std::int64_t c = 0; c < image.channels; ++c) look_up(image.plane(c), table);
}

/// A mean of a pixel's surroundings in which it counts five times; pixels at the edges stay.
std::vector<std::uint8_t> smoothed(std::span<const std::uint8_t> plane, std::int64_t height, std::int64_t width) {
  constexpr int kOwnWeight = 4, kWeights = 13;  // besides the one that all nine have
  std::vector<std::uint8_t> out(plane.begin(), plane.end());
  for (std::int64_t y = 1; y + 1 < height; ++y) {
    const std::uint8_t* const row = plane.data() + y * width;
    for (std::int64_t x = 1; x + 1 < width; ++x) {
      int sum = kOwnWeight * row[x];
      for (const std::int64_t line : {x - width, x, x + width}) sum += row[line - 1] + row[line] + row[line + 1];
      out[static_cast<std::size_t>(y * width + x)] = static_cast<std::uint8_t>((2 * sum + kWeights) / (2 * kWeights));
    }
  }
  return out;
}

struct Hsv {
  std::uint8_t hue, saturation, value;
};

Hsv hsv_of(int red, int green, int blue) {
  constexpr double kSixths = 6.0;
  const int most = std::max({red, green, blue}), least = std::min({red, green, blue});
  if (most == least) return {0, 0, static_cast<std::uint8_t>(most)};
  const auto range = static_cast<float>(most - least);
  const auto distance = [&](int colour) { return static_cast<float>(most - colour) / range; };
  const double place = red == most ? static_cast<double>(distance(blue) - distance(green))
                       : green == most
                           ? 2.0 + static_cast<double>(distance(red)) - static_cast<double>(distance(blue))
                           : 4.0 + static_cast<double>(distance(green)) - static_cast<double>(distance(red));
  double turn = static_cast<double>(static_cast<float>(place)) / kSixths + 1.0;
  if (turn >= 1.0) turn -= 1.0;
  const auto byte_of = [](double share) {
    return static_cast<std::uint8_t>(std::clamp(static_cast<int>(share * kMostByte), 0, kMostByte));
  };
  return {byte_of(static_cast<double>(static_cast<float>(turn))),
          byte_of(static_cast<double>(range / static_cast<float>(most))), static_cast<std::uint8_t>(most)};
}

std::array<std::uint8_t, 3> rgb_of(const Hsv& colour) {
  const std::uint8_t v = colour.value;
  if (colour.saturation == 0) return {v, v, v};
  const double sixths = static_cast<double>(colour.hue) * 6.0 / kMostByte;
  const int sector = static_cast<int>(sixths);
  const auto rest = static_cast<double>(static_cast<float>(sixths - sector));
  const auto strength = static_cast<double>(static_cast<float>(static_cast<double>(colour.saturation) / kMostByte));
  const auto rounded = [&](double share) {
    return static_cast<std::uint8_t>(std::round(static_cast<double>(v) * share));
  };
  const std::uint8_t low = rounded(1.0 - strength), falling = rounded(1.0 - strength * rest),
                     rising = rounded(1.0 - strength * (1.0 - rest));
  switch (sector % 6) {
    case 0:
      return {v, rising, low};
    case 1:
      return {falling, v, low};
    case 2:
      return {low, v, rising};
    case 3:
      return {low, falling, v};
    case 4:
      return {rising, low, v};
    default:
      return {v, low, falling};
  }
}
}  // namespace

void adjust_brightness(const Pixels& image, double factor) {
  look_up_all(image, byte_table([&](int i) { return blend(0, i, static_cast<float>(factor)); }));
}

void adjust_contrast(const Pixels& image, double factor) {
  const double exact = static_cast<double>(sum_of_greys(image)) / static_cast<double>(image.plane_size());
  const auto mean = static_cast<int>(std::floor(exact + 0.5));
  look_up_all(image, byte_table([&](int i) { return blend(mean, i, static_cast<float>(factor)); }));
}

void adjust_saturation(const Pixels& image, double factor) {
  const auto share = static_cast<float>(factor);
  change_colours(image, [&](std::uint8_t& red, std::uint8_t& green, std::uint8_t& blue) {
    const int grey = grey_of(red, green, blue);
    red = blend(grey, red, share);
    green = blend(grey, green, share);
    blue = blend(grey, blue, share);
  });
}

void adjust_sharpness(const Pixels& image, double factor) {
  for (std::int64_t c = 0; c < image.channels; ++c) {
    const auto plane = image.plane(c);
    const auto smooth = smoothed(plane, image.height, image.width);
    for (std::size_t i = 0; i < plane.size(); ++i) plane[i] = blend(smooth[i], plane[i], static_cast<float>(factor));
  }
}

void adjust_hue(const Pixels& image, double shift) {
  const auto turn = static_cast<std::uint8_t>(static_cast<int>(shift * kMostByte));
  change_colours(image, [&](std::uint8_t& red, std::uint8_t& green, std::uint8_t& blue) {
    Hsv colour = hsv_of(red, green, blue);
    colour.hue = static_cast<std::uint8_t>(colour.hue + turn);
    const auto changed = rgb_of(colour);
    red = changed[0];
    green = changed[1];
    blue = changed[2];
  });
}

void posterize(const Pixels& image, int bits) {
  const int mask = ~((1 << (8 - bits)) - 1);
  look_up_all(image, byte_table([&](int i) { return i & mask; }));
}

void solarize(const Pixels& image, double threshold) {
  look_up_all(image, byte_table([&](int i) { return i < threshold ? i : kMostByte - i; }));
}

void stretch_contrast(const Pixels& image) {
  for (std::int64_t c = 0; c < image.channels; ++c) {
    const auto plane = image.plane(c);
    const auto [low, high] = std::ranges::minmax(plane);
    if (high <= low) continue;
    const double scale = 255.0 / (high - low), offset = -static_cast<double>(low) * scale;
    look_up(plane, byte_table([&](int i) {
              return static_cast<int>(std::clamp(static_cast<double>(i) * scale + offset, 0.0, 255.0));
            }));
  }
}

void equalize(const Pixels& image) {
  for (std::int64_t c = 0; c < image.channels; ++c) {
    const auto plane = image.plane(c);
    const auto counts = counts_in(plane);
    const auto last = std::find_if(counts.rbegin(), counts.rend(), [](std::int64_t count) { return count > 0; });
    const std::int64_t step = (static_cast<std::int64_t>(plane.size()) - *last) / kMostByte;
    if (step == 0) continue;
    std::int64_t before = step / 2;
    look_up(plane, byte_table([&](int i) {
              const std::int64_t value = before / step;
              before += counts[static_cast<std::size_t>(i)];
              return std::min<std::int64_t>(value, kMostByte);
            }));
  }
}

void transform_affine(const Pixels& image, const std::array<double, 6>& m) {
  constexpr int kFractionBits = 16;
  const auto fixed = [](double value) {
    return static_cast<std::int64_t>(std::floor(value * (1 << kFractionBits) + 0.5));
  };
  const std::array steps{fixed(m[0]), fixed(m[1]), fixed(m[3]), fixed(m[4])};
  const std::int64_t first_x = fixed(m[2] + m[0] * 0.5 + m[1] * 0.5), first_y = fixed(m[5] + m[3] * 0.5 + m[4] * 0.5);
  std::vector<std::int64_t> places(image.plane_size());  // -1: outside
  for (std::int64_t y = 0; y < image.height; ++y)
    for (std::int64_t x = 0; x < image.width; ++x) {
      const std::int64_t from_x = (first_x + x * steps[0] + y * steps[1]) >> kFractionBits,
                         from_y = (first_y + x * steps[2] + y * steps[3]) >> kFractionBits;
      const bool is_inside = from_x >= 0 && from_x < image.width && from_y >= 0 && from_y < image.height;
      places[static_cast<std::size_t>(y * image.width + x)] = is_inside ? from_y * image.width + from_x : -1;
    }
  std::vector<std::uint8_t> before(image.plane_size());
  for (std::int64_t c = 0; c < image.channels; ++c) {
    const auto plane = image.plane(c);
    std::ranges::copy(plane, before.begin());
    for (std::size_t i = 0; i < plane.size(); ++i)
      plane[i] = places[i] < 0 ? std::uint8_t{0} : before[static_cast<std::size_t>(places[i])];
  }
}

void rotate(const Pixels& image, double degrees) {
  if (degrees == 0) return;
  const double angle = -degrees * std::numbers::pi / 180.0, cosine = std::cos(angle), sine = std::sin(angle);
  const double x = static_cast<double>(image.width) / 2.0, y = static_cast<double>(image.height) / 2.0;
  transform_affine(image, {cosine, sine, x - cosine * x - sine * y, -sine, cosine, y + sine * x - cosine * y});
}

}  // namespace distdl::data
