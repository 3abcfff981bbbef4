// SPDX-License-Identifier: Apache-2.0
#include "tests/data/example_images.hpp"

#include <cmath>
#include <cstdio>
#include <cstdlib>

#include <fmt/format.h>
#include <jpeglib.h>
#include <png.h>
#include <webp/encode.h>
#include <zlib.h>

namespace distdl::data {
namespace {
void demand(bool holds) {
  if (!holds) std::abort();
}
std::string text_of(const std::uint8_t* bytes, std::size_t count) {
  return {reinterpret_cast<const char*>(bytes), count};
}
}  // namespace

std::vector<std::uint8_t> example_rgb(std::int64_t width, std::int64_t height, std::uint32_t seed) {
  std::vector<std::uint8_t> rgb;
  for (std::int64_t y = 0; y < height; ++y)
    for (std::int64_t x = 0; x < width; ++x)
      for (int c = 0; c < 3; ++c) {
        const double wave =
            std::sin(0.07 * static_cast<double>(x * (c + 1)) + seed) + std::cos(0.05 * static_cast<double>(y) + c);
        rgb.push_back(static_cast<std::uint8_t>(128 + 50 * wave + ((x / 20 + y / 15) % 2 == 0 ? 20 : 0)));
      }
  return rgb;
}

std::string ppm_of(std::span<const std::uint8_t> rgb, std::int64_t width, std::int64_t height) {
  return fmt::format("P6\n{} {}\n255\n", width, height) + text_of(rgb.data(), rgb.size());
}

std::string jpeg_of(std::span<const std::uint8_t> pixels, std::int64_t width, std::int64_t height,
                    const JpegExample& example) {
  jpeg_compress_struct encoder{};
  jpeg_error_mgr errors{};
  encoder.err = jpeg_std_error(&errors);  // whose errors end the program
  jpeg_create_compress(&encoder);
  unsigned char* bytes = nullptr;
  unsigned long count = 0;  // NOLINT(google-runtime-int): libjpeg's type
  jpeg_mem_dest(&encoder, &bytes, &count);
  encoder.image_width = static_cast<JDIMENSION>(width);
  encoder.image_height = static_cast<JDIMENSION>(height);
  encoder.input_components = example.components;
  encoder.in_color_space = example.components == 1 ? JCS_GRAYSCALE : example.components == 3 ? JCS_RGB : JCS_CMYK;
  jpeg_set_defaults(&encoder);
  jpeg_set_quality(&encoder, example.quality, TRUE);
  encoder.comp_info[0].h_samp_factor = encoder.comp_info[0].v_samp_factor =
      example.components == 3 ? example.sampling : 1;
  if (example.is_progressive) jpeg_simple_progression(&encoder);
  jpeg_start_compress(&encoder, TRUE);
  if (example.orientation > 0) {
    const std::string exif = std::string("Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0", 25) +
                             static_cast<char>(example.orientation) + std::string(6, '\0');
    jpeg_write_marker(&encoder, JPEG_APP0 + 1, reinterpret_cast<const JOCTET*>(exif.data()),
                      static_cast<unsigned>(exif.size()));
  }
  const auto stride = static_cast<std::size_t>(width * example.components);
  while (encoder.next_scanline < encoder.image_height) {
    auto* row = const_cast<JSAMPROW>(pixels.data() + encoder.next_scanline * stride);  // NOLINT(*-const-cast)
    jpeg_write_scanlines(&encoder, &row, 1);
  }
  jpeg_finish_compress(&encoder);
  jpeg_destroy_compress(&encoder);
  std::string file = text_of(bytes, count);
  std::free(bytes);
  return file;
}

std::string png_of(std::span<const std::uint8_t> rows, std::int64_t width, std::int64_t height, int type, int bits,
                   bool is_interlaced) {
  std::string file;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_set_write_fn(
      png, &file,
      [](png_structp to, png_bytep bytes, png_size_t count) {
        static_cast<std::string*>(png_get_io_ptr(to))->append(text_of(bytes, count));
      },
      nullptr);
  png_set_IHDR(png, info, static_cast<png_uint_32>(width), static_cast<png_uint_32>(height), bits, type,
               is_interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
               PNG_FILTER_TYPE_DEFAULT);
  if (type == PNG_COLOR_TYPE_PALETTE) {
    std::vector<png_color> palette(256);
    for (std::size_t i = 0; i < palette.size(); ++i)
      palette[i] = {static_cast<png_byte>(i), static_cast<png_byte>(255 - i), static_cast<png_byte>(i / 2)};
    png_set_PLTE(png, info, palette.data(), 256);
  }
  png_write_info(png, info);
  const std::size_t stride = rows.size() / static_cast<std::size_t>(height);
  std::vector<png_bytep> lines;
  for (std::int64_t y = 0; y < height; ++y)
    lines.push_back(const_cast<png_bytep>(rows.data() + static_cast<std::size_t>(y) * stride));  // NOLINT(*-const-cast)
  png_write_image(png, lines.data());
  png_write_end(png, nullptr);
  png_destroy_write_struct(&png, &info);
  return file;
}

std::string webp_of(std::span<const std::uint8_t> rgb, std::int64_t width, std::int64_t height) {
  std::uint8_t* bytes = nullptr;
  const std::size_t count = WebPEncodeLosslessRGB(rgb.data(), static_cast<int>(width), static_cast<int>(height),
                                                  static_cast<int>(3 * width), &bytes);
  demand(count > 0);
  std::string file = text_of(bytes, count);
  WebPFree(bytes);
  return file;
}

void write_tar(const std::filesystem::path& file, const std::vector<std::pair<std::string, std::string>>& entries) {
  constexpr std::size_t kBlock = 512, kSum = 148;
  std::string tar;
  for (const auto& [name, content] : entries) {
    const bool is_link = name.ends_with('@');
    std::string head(kBlock, '\0');
    head.replace(0, name.size() - (is_link ? 1 : 0), name, 0, name.size() - (is_link ? 1 : 0));
    head.replace(124, 11, fmt::format("{:011o}", is_link ? 0 : content.size()));
    head.replace(kSum, 9, "        0");
    if (is_link) head[156] = '2', head.replace(157, content.size(), content);
    head.replace(257, 8, std::string("ustar\00000", 8));
    unsigned sum = 0;
    for (const char c : head) sum += static_cast<unsigned char>(c);
    head.replace(kSum, 8, fmt::format("{:06o}", sum) + std::string("\0 ", 2));
    tar += head;
    if (is_link) continue;
    tar += content;
    tar.append((kBlock - content.size() % kBlock) % kBlock, '\0');
  }
  tar.append(2 * kBlock, '\0');
  gzFile out = gzopen(file.c_str(), file.extension() == ".gz" ? "wb" : "wbT");
  demand(gzwrite(out, tar.data(), static_cast<unsigned>(tar.size())) == static_cast<int>(tar.size()));
  demand(gzclose(out) == Z_OK);
}

}  // namespace distdl::data
