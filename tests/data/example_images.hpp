// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace distdl::data {

/// Rows of RGB, of smooth colours with some edges.
std::vector<std::uint8_t> example_rgb(std::int64_t width, std::int64_t height, std::uint32_t seed = 1);

std::string ppm_of(std::span<const std::uint8_t> rgb, std::int64_t width, std::int64_t height);

struct JpegExample {
  int components = 3;  ///< 1, 3, or 4 for CMYK: the values given are then those of the file
  int quality = 90;
  int sampling = 2;  ///< of brightness against colours, both ways
  bool is_progressive = false;
  int orientation = 0;  ///< EXIF; 0: none
};
std::string jpeg_of(std::span<const std::uint8_t> pixels, std::int64_t width, std::int64_t height,
                    const JpegExample& example = {});

/// `type`: PNG_COLOR_TYPE_*; `bits`: 8 or 16, those big-endian in `rows`.
std::string png_of(std::span<const std::uint8_t> rows, std::int64_t width, std::int64_t height, int type, int bits = 8,
                   bool is_interlaced = false);
std::string webp_of(std::span<const std::uint8_t> rgb, std::int64_t width, std::int64_t height);

/// A tar archive, compressed by gzip if its name ends so. {name, content}; a name that ends in '@' is a link to the
/// content.
void write_tar(const std::filesystem::path& file, const std::vector<std::pair<std::string, std::string>>& entries);

}  // namespace distdl::data
