// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <distdl/base/errors.hpp>
#include <distdl/data/normalization.hpp>

namespace distdl::data {
namespace {
/// torchvision's, of red, green and blue.
constexpr std::array<float, 3> kImageNetMean{0.485f, 0.456f, 0.406f}, kImageNetDeviation{0.229f, 0.224f, 0.225f};
}  // namespace

PixelTables pixel_tables(const Description& description, Normalization normalization) {
  const bool is_imagenet = normalization == Normalization::imagenet;
  const auto channels = static_cast<std::size_t>(description.shape.at(0));
  require(!is_imagenet || channels == kImageNetMean.size(),
          "data.normalize is \"imagenet\", which is for 3 channels, but the images have {}; set it to \"set\"",
          channels);
  PixelTables tables(channels);
  for (std::size_t c = 0; c < channels; ++c) {
    const bool is_none = normalization == Normalization::none;
    const float mean = is_imagenet ? kImageNetMean[c] : is_none ? 0.0f : description.mean;
    const float deviation = is_imagenet ? kImageNetDeviation[c] : is_none ? 1.0f : description.deviation;
    for (std::size_t pixel = 0; pixel < tables[c].size(); ++pixel)
      tables[c][pixel] = (static_cast<float>(pixel) / 255.0f - mean) / deviation;
  }
  return tables;
}

void normalize(std::span<const std::uint8_t> pixels, const PixelTables& tables, float* out) {
  const std::size_t plane = pixels.size() / tables.size();
  for (const auto& values : tables) {
    out = std::transform(pixels.begin(), pixels.begin() + static_cast<std::ptrdiff_t>(plane), out,
                         [&](std::uint8_t pixel) { return values[pixel]; });
    pixels = pixels.subspan(plane);
  }
}

}  // namespace distdl::data
