// SPDX-License-Identifier: Apache-2.0
// The table of formats of images.
#include <algorithm>
#include <array>

#include <distdl/base/known_formats.hpp>
#include <distdl/data/codecs/codec.hpp>

namespace distdl::data {
namespace {
using namespace std::string_view_literals;

/// Formats that torchvision reads by Pillow, and that distdl does not.
constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kOthers{
    {{"BM", "a BMP image"}, {"GIF8", "a GIF image"}, {"II*\0"sv, "a TIFF image"}, {"MM\0*"sv, "a TIFF image"}}};
}  // namespace

const Codec& codec_of(std::span<const std::byte> bytes) {
  static const std::array all{jpeg_codec(), png_codec(), webp_codec(), pnm_codec()};
  const auto* const found = std::ranges::find_if(all, [&](const Codec& codec) { return codec.begins(bytes); });
  if (found != all.end()) return *found;
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const auto* const other = std::ranges::find_if(kOthers, [&](const auto& row) { return text.starts_with(row.first); });
  const auto format =
      other != kOthers.end() ? other->second : known_format(bytes.first(std::min(bytes.size(), kFormatHead)));
  throw BrokenImage(bytes.empty()    ? "it is empty"
                    : format.empty() ? "it is no image in JPEG, PNG, WebP, PPM or PGM"
                                     : fmt::format("it is {}, but JPEG, PNG, WebP, PPM or PGM is expected", format));
}

void require_extents(std::int64_t width, std::int64_t height) {
  require<BrokenImage>(width >= 1 && height >= 1, "it has {} x {} pixels", width, height);
  require<BrokenImage>(width <= kMostPixels / height, "it has {} x {} pixels, but at most {} are read", width, height,
                       kMostPixels);
}

}  // namespace distdl::data
