// SPDX-License-Identifier: Apache-2.0
#include <string_view>

#include <zlib.h>

#include <distdl/base/errors.hpp>
#include <distdl/observe/tensorboard/png.hpp>

namespace distdl::observe {
namespace {
std::string big_endian_32(std::uint64_t value) {
  std::string text;
  for (int shift = 24; shift >= 0; shift -= 8) text += static_cast<char>(value >> shift & 0xff);
  return text;
}

std::string png_chunk(std::string_view type, std::string_view data) {
  const std::string summed = std::string(type) + std::string(data);
  return big_endian_32(data.size()) + summed +
         big_endian_32(::crc32(0, reinterpret_cast<const Bytef*>(summed.data()), static_cast<uInt>(summed.size())));
}

std::string compressed(std::string_view bytes) {
  uLongf size = ::compressBound(bytes.size());
  std::string out(size, '\0');
  const int result = ::compress(reinterpret_cast<Bytef*>(out.data()), &size,
                                reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
  require<InternalError>(result == Z_OK, "zlib cannot compress an image: error {}", result);
  out.resize(size);
  return out;
}
}  // namespace

std::string png(std::span<const std::uint8_t> pixels, const tensor::Shape& shape) {
  const auto height = static_cast<std::size_t>(shape[1]), width = static_cast<std::size_t>(shape[2]);
  const std::size_t channels = shape[0] >= 3 ? 3 : 1;
  std::string rows;
  for (std::size_t y = 0; y < height; ++y) {
    rows += '\0';  // no filter
    for (std::size_t x = 0; x < width; ++x)
      for (std::size_t c = 0; c < channels; ++c) rows += static_cast<char>(pixels[(c * height + y) * width + x]);
  }
  constexpr char kGrey = 0, kColour = 2, kBits = 8;
  const std::string head =
      big_endian_32(width) + big_endian_32(height) + kBits + (channels == 3 ? kColour : kGrey) + std::string(3, '\0');
  return "\x89PNG\r\n\x1a\n" + png_chunk("IHDR", head) + png_chunk("IDAT", compressed(rows)) + png_chunk("IEND", "");
}

}  // namespace distdl::observe
