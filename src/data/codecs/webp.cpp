// SPDX-License-Identifier: Apache-2.0
// WebP by libwebp. The whole image is decoded.
#include <cstring>

#include <webp/decode.h>

#include <distdl/data/codecs/codec.hpp>

namespace distdl::data {
namespace {
const std::uint8_t* raw(std::span<const std::byte> bytes) {
  return reinterpret_cast<const std::uint8_t*>(bytes.data());
}

/// EXIF is not read.
ImageHead webp_head(std::span<const std::byte> bytes) {
  WebPBitstreamFeatures features{};
  require<BrokenImage>(WebPGetFeatures(raw(bytes), bytes.size(), &features) == VP8_STATUS_OK, "damaged WebP");
  require<BrokenImage>(features.has_animation == 0, "it is an animation");
  require_extents(features.width, features.height);
  return {features.width, features.height, 1};
}

void decode_webp(std::span<const std::byte> bytes, const Rectangle&, int, DecodedPart& part) {
  const ImageHead head = webp_head(bytes);
  part.place = {0, 0, head.width, head.height};
  part.rgb.resize(static_cast<std::size_t>(head.width * head.height * 3));
  require<BrokenImage>(WebPDecodeRGBInto(raw(bytes), bytes.size(), part.rgb.data(), part.rgb.size(),
                                         static_cast<int>(head.width * 3)) != nullptr,
                       "damaged WebP");
}
}  // namespace

Codec webp_codec() {
  return {.name = "WebP",
          .begins =
              [](std::span<const std::byte> bytes) {
                return bytes.size() >= 12 && std::memcmp(bytes.data(), "RIFF", 4) == 0 &&
                       std::memcmp(bytes.data() + 8, "WEBP", 4) == 0;
              },
          .head = &webp_head,
          .decode = &decode_webp};
}

}  // namespace distdl::data
