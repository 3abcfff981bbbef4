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
}  // namespace

View view_of(std::uint64_t seed, std::int64_t epoch, std::int64_t sample, std::int64_t crop, bool mirror) {
  const auto bits =
      Philox::block(seed ^ kStream, static_cast<std::uint64_t>(epoch), static_cast<std::uint64_t>(sample));
  return {shift_of(bits[0], crop), shift_of(bits[1], crop), mirror && bits[2] % 2 == 1};
}

void render(std::span<const std::uint8_t> pixels, const tensor::Shape& shape, const View& view,
            std::span<const std::array<float, 256>> tables, float* out) {
  const std::int64_t height = shape[1], width = shape[2];
  const std::int64_t first = std::clamp<std::int64_t>(view.right, 0, width),
                     last = std::clamp<std::int64_t>(width + view.right, 0, width);
  const bool is_moved = view.down != 0 || view.right != 0 || view.mirrored;
  for (const auto& values : tables) {
    const auto plane = pixels.first(static_cast<std::size_t>(height * width));
    pixels = pixels.subspan(plane.size());
    if (!is_moved) {
      out = std::transform(plane.begin(), plane.end(), out, [&](std::uint8_t pixel) { return values[pixel]; });
      continue;
    }
    for (std::int64_t row = 0; row < height; ++row, out += width) {
      const std::int64_t from = row - view.down;
      std::fill(out, out + width, values[0]);
      if (from < 0 || from >= height) continue;
      const auto* line = plane.data() + from * width - view.right;
      for (std::int64_t x = first; x < last; ++x) out[view.mirrored ? width - 1 - x : x] = values[line[x]];
    }
  }
}

}  // namespace distdl::data
