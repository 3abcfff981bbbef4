// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include <distdl/tensor/shape.hpp>

namespace distdl::observe {

/// An image as a PNG file (https://www.w3.org/TR/png): grey, or in colour if it has three channels or more. `pixels`:
/// (C, H, W). Throws Error if zlib fails.
std::string png(std::span<const std::uint8_t> pixels, const tensor::Shape& shape);

}  // namespace distdl::observe
