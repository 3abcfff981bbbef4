// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

#include <distdl/data/data_set.hpp>
#include <distdl/data/staged_file.hpp>

namespace distdl::data {

/// Procedural labelled images. Each has one shape with a random position, angle, size and thickness, on a background
/// with a gradient, sometimes partly covered, with noise. The class is the kind of shape. Sample i is a pure function
/// of these options (except `samples`) and i. It is the same on every machine, because only +, -, *, / and square roots
/// are used.
struct ShapesOptions {
  std::int64_t samples = 12000;
  std::int64_t size = 28;     ///< height and width in pixels, at least 8
  std::int64_t channels = 1;  ///< each has its own brightness
  std::int64_t classes = 10;  ///< 2 to 10
  std::uint64_t seed = 1;
  double noise = 0.05;  ///< standard deviation of the noise of a pixel, where 1 is the difference of black and white
};

/// Draws sample i into `pixels`, (C, H, W), and returns its label. Throws ConfigError if an option is out of range.
std::int32_t draw_shape(const ShapesOptions& options, std::int64_t sample, std::span<std::uint8_t> pixels);

/// Throws ConfigError, StorageError.
Description make_shapes(const ShapesOptions& options, const std::filesystem::path& output, Overwrite overwrite);

}  // namespace distdl::data
