// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include <distdl/data/codecs/codec.hpp>

namespace distdl::data {

/// A square window of an image: a part of it is resized, and the window is taken from the result.
struct Frame {
  double left = 0, top = 0, width = 0, height = 0;     ///< the part, in pixels of the image
  std::int64_t resized_width = 0, resized_height = 0;  ///< the part's new extents
  std::int64_t x = 0, y = 0;                           ///< the place of the window in the resized part
  bool mirrored = false;                               ///< the window is mirrored left to right
};

/// The middle of an image whose shorter side was resized to `resize` pixels: torchvision's Resize and CenterCrop.
Frame centre_frame(std::int64_t width, std::int64_t height, std::int64_t size, std::int64_t resize);

/// The statement of how an image is framed, from its extents.
using Framing = std::function<Frame(std::int64_t width, std::int64_t height)>;

/// Decodes windows of images. Its memory is used again. Not thread-safe; each thread has one.
class ImageFramer {
 public:
  /// `upright`: images are turned as their EXIF data say. Throws BrokenImage.
  void decode(std::span<const std::byte> bytes, const Framing& framing, std::int64_t size, bool upright);
  /// The window as bytes, (C, size, size): of 3 channels, or of 1 by Pillow's weights of red, green and blue.
  void write(std::int64_t channels, std::uint8_t* out) const;
  /// The window as floats, (3, size, size), by a table for each channel.
  void write(std::span<const std::array<float, 256>> tables, float* out) const;

 private:
  template <class Write>
  void each_pixel(const Write& write) const;

  std::int64_t size_ = 0;
  bool exchanges_ = false, mirrors_columns_ = false, mirrors_rows_ = false;
  DecodedPart part_;
  std::vector<std::uint8_t> between_, window_;
};

/// Decodes the whole image, as a check that it can be. Adds the values of every eighth row to `histogram`. Throws
/// BrokenImage.
void check_image(std::span<const std::byte> bytes, DecodedPart& memory, std::array<std::uint64_t, 256>& histogram);

}  // namespace distdl::data
