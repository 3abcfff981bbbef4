// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <distdl/base/philox.hpp>
#include <distdl/data/augmentation.hpp>

namespace distdl::data {
namespace {
constexpr std::uint64_t kStream = 0x7669657773;  // apart from the sampler's numbers

std::int64_t shift_of(std::uint32_t bits, std::int64_t crop) {
  const auto choices = static_cast<std::uint64_t>(2 * crop + 1);
  return static_cast<std::int64_t>(bits * choices >> 32) - crop;
}

/// `value_of(channel, pixel)`: what is written.
template <class Value, class ValueOf>
void write_view(std::span<const std::uint8_t> pixels, const tensor::Shape& shape, const View& view,
                const ValueOf& value_of, Value* out) {
  const std::int64_t height = shape[1], width = shape[2];
  const std::int64_t first = std::clamp<std::int64_t>(view.right, 0, width),
                     last = std::clamp<std::int64_t>(width + view.right, 0, width);
  const bool is_moved = view.down != 0 || view.right != 0 || view.mirrored;
  for (std::int64_t channel = 0; channel < shape[0]; ++channel) {
    const auto value = value_of(static_cast<std::size_t>(channel));
    const auto plane = pixels.first(static_cast<std::size_t>(height * width));
    pixels = pixels.subspan(plane.size());
    if (!is_moved) {
      out = std::transform(plane.begin(), plane.end(), out, [&](std::uint8_t pixel) { return value(pixel); });
      continue;
    }
    for (std::int64_t row = 0; row < height; ++row, out += width) {
      const std::int64_t from = row - view.down;
      std::fill(out, out + width, value(0));
      if (from < 0 || from >= height) continue;
      const auto* line = plane.data() + from * width - view.right;
      for (std::int64_t x = first; x < last; ++x) out[view.mirrored ? width - 1 - x : x] = value(line[x]);
    }
  }
}
}  // namespace

View view_of(std::uint64_t seed, std::int64_t epoch, std::int64_t sample, std::int64_t crop, bool mirror) {
  const auto bits =
      Philox::block(seed ^ kStream, static_cast<std::uint64_t>(epoch), static_cast<std::uint64_t>(sample));
  return {shift_of(bits[0], crop), shift_of(bits[1], crop), mirror && bits[2] % 2 == 1};
}

void render(std::span<const std::uint8_t> pixels, const tensor::Shape& shape, const View& view,
            std::span<const std::array<float, 256>> tables, float* out) {
  write_view(
      pixels, shape, view,
      [&](std::size_t channel) { return [&values = tables[channel]](std::uint8_t pixel) { return values[pixel]; }; },
      out);
}

void render(std::span<const std::uint8_t> pixels, const tensor::Shape& shape, const View& view, std::uint8_t* out) {
  write_view(
      pixels, shape, view, [](std::size_t) { return [](std::uint8_t pixel) { return pixel; }; }, out);
}

}  // namespace distdl::data
