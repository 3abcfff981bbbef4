// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include <distdl/data/data_set.hpp>
#include <distdl/data/options.hpp>

namespace distdl::data {

/// For each channel the float of each pixel value: (pixel / 255 - mean) / deviation.
using PixelTables = std::vector<std::array<float, 256>>;

/// Throws ConfigError if the normalization is of another number of channels than the images.
PixelTables pixel_tables(const Description& description, Normalization normalization);

/// Writes the floats of `pixels`, (C, H, W).
void normalize(std::span<const std::uint8_t> pixels, const PixelTables& tables, float* out);

}  // namespace distdl::data
