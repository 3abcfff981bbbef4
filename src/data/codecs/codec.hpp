// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <distdl/base/errors.hpp>

namespace distdl::data {

/// An image cannot be decoded. The text says why, without the image's name. An import may pass over such an image.
class BrokenImage : public StorageError {
 public:
  explicit BrokenImage(const std::string& why) : StorageError(why, ExitCode::corrupt) {}
};

inline constexpr std::int64_t kMostPixels =
    178'956'970;  ///< a limit for one image, against decompression bombs; as Pillow's
inline constexpr std::size_t kMostImageBytes = std::size_t{1} << 30;  ///< a limit for one encoded image

/// A rectangle of pixels.
struct Rectangle {
  std::int64_t left = 0, top = 0, width = 0, height = 0;
};

/// The extents and the orientation that the head of an encoded image says.
struct ImageHead {
  std::int64_t width = 0, height = 0;  ///< as stored, both at least 1
  int orientation = 1;                 ///< EXIF, 1 to 8; 1: as stored
};

/// A part of an image that may be scaled down by a whole number, in rows of RGB.
struct DecodedPart {
  Rectangle place;                ///< in the scaled image
  std::vector<std::uint8_t> rgb;  ///< place.height rows of place.width pixels
};

/// A format of encoded images. Each is in a file of its own. The functions throw BrokenImage.
struct Codec {
  std::string_view name;  ///< "JPEG"
  bool (*begins)(std::span<const std::byte> bytes);
  ImageHead (*head)(std::span<const std::byte> bytes);
  /// Decodes at least the rectangle `wanted` of the image scaled down by `divisor` (1, 2, 4 or 8), whose extents are
  /// those of the image divided by it and rounded up. Only if scales_down may the divisor be other than 1.
  void (*decode)(std::span<const std::byte> bytes, const Rectangle& wanted, int divisor, DecodedPart& part);
  bool scales_down = false;
};

Codec jpeg_codec();
Codec png_codec();
Codec webp_codec();
Codec pnm_codec();

/// The codec of the format that these bytes begin with, whatever the file is called. Throws BrokenImage, which says
/// what they are where that is known.
const Codec& codec_of(std::span<const std::byte> bytes);

/// Throws BrokenImage unless an image may have these extents.
void require_extents(std::int64_t width, std::int64_t height);

}  // namespace distdl::data
