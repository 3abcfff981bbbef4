// SPDX-License-Identifier: Apache-2.0
// PNG by libpng. The whole image is decoded: its rows depend on each other.
#include <array>
#include <csetjmp>
#include <cstdio>
#include <cstring>

#include <png.h>

#include <distdl/data/codecs/codec.hpp>
#include <distdl/data/codecs/exif.hpp>
#include <distdl/data/codecs/guarded.hpp>

namespace distdl::data {
namespace {

class Png {
 public:
  explicit Png(std::span<const std::byte> bytes) : rest_(bytes) {
    constexpr png_alloc_size_t kMostChunk = 8 << 20;  // of texts and profiles
    constexpr std::size_t kMostDeflated = 1032;       // zlib makes nothing smaller than this
    constexpr png_uint_32 kMostExtent = 0x7fffffff, kMostChunks = 1000;
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, &fail, [](png_structp, png_const_charp) {});
    if (png_) info_ = png_create_info_struct(png_);
    if (!info_) {
      png_destroy_read_struct(&png_, nullptr, nullptr);
      throw std::bad_alloc();
    }
    guard([&] {
      png_set_read_fn(png_, this, &read);
      png_set_user_limits(png_, kMostExtent, kMostExtent);
      png_set_chunk_malloc_max(png_, kMostChunk);
      png_set_chunk_cache_max(png_, kMostChunks);
      png_read_info(png_, info_);
    });
    try {
      require_extents(png_get_image_width(png_, info_), png_get_image_height(png_, info_));
      const std::size_t expected = png_get_rowbytes(png_, info_) * png_get_image_height(png_, info_);
      require<BrokenImage>(expected / kMostDeflated <= bytes.size(), "damaged PNG: {} bytes of pixels in {} bytes",
                           expected, bytes.size());
    } catch (...) {
      close();
      throw;
    }
  }
  ~Png() { close(); }
  Png(const Png&) = delete;
  Png& operator=(const Png&) = delete;

  ImageHead head() {
    png_bytep data = nullptr;
    png_uint_32 size = 0;
    const bool has = png_get_eXIf_1(png_, info_, &size, &data) != 0;
    return {png_get_image_width(png_, info_), png_get_image_height(png_, info_),
            has ? orientation_of(std::as_bytes(std::span(data, size))) : 1};
  }

  /// As Pillow converts to RGB: without transparency, and 16 bits lose the lower 8.
  void decode(DecodedPart& part) {
    const auto [width, height, turn] = head();
    part.place = {0, 0, width, height};
    const std::size_t stride = static_cast<std::size_t>(width) * 3;
    part.rgb.resize(stride * static_cast<std::size_t>(height));
    rows_.resize(static_cast<std::size_t>(height));
    for (std::size_t row = 0; row < rows_.size(); ++row) rows_[row] = part.rgb.data() + row * stride;
    guard([&] {
      const int type = png_get_color_type(png_, info_);
      png_set_strip_16(png_);
      if (type == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png_);
      if (type == PNG_COLOR_TYPE_GRAY || type == PNG_COLOR_TYPE_GRAY_ALPHA) {
        png_set_expand_gray_1_2_4_to_8(png_);
        png_set_gray_to_rgb(png_);
      }
      png_set_strip_alpha(png_);
      png_set_interlace_handling(png_);
      png_read_update_info(png_, info_);
      if (png_get_rowbytes(png_, info_) != rows_size()) png_error(png_, "unexpected row");
      png_read_image(png_, rows_.data());
    });
  }

 private:
  std::size_t rows_size() const { return std::size_t{png_get_image_width(png_, info_)} * 3; }
  static void read(png_structp png, png_bytep to, std::size_t count) {
    auto& self = *static_cast<Png*>(png_get_io_ptr(png));
    if (count > self.rest_.size()) png_error(png, "it ends too early");
    std::memcpy(to, self.rest_.data(), count);
    self.rest_ = self.rest_.subspan(count);
  }
  [[noreturn]] static void fail(png_structp png, png_const_charp why) {
    auto& self = *static_cast<Png*>(png_get_error_ptr(png));
    std::snprintf(self.why_.data(), self.why_.size(), "%s", why);
    std::longjmp(self.place_, 1);  // NOLINT(cert-err52-cpp)
  }
  template <class Step>
  void guard(const Step& step) {
    if (guarded(place_, step)) return;
    close();
    throw BrokenImage(fmt::format("damaged PNG: {}", why_.data()));
  }
  void close() { png_destroy_read_struct(&png_, &info_, nullptr); }

  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  std::span<const std::byte> rest_;
  std::vector<png_bytep> rows_;
  std::jmp_buf place_{};
  std::array<char, 200> why_{};
};

}  // namespace

Codec png_codec() {
  return {.name = "PNG",
          .begins =
              [](std::span<const std::byte> bytes) {
                return bytes.size() >= 8 && std::memcmp(bytes.data(), "\x89PNG\r\n\x1a\n", 8) == 0;
              },
          .head = [](std::span<const std::byte> bytes) { return Png(bytes).head(); },
          .decode = [](std::span<const std::byte> bytes, const Rectangle&, int,
                       DecodedPart& part) { Png(bytes).decode(part); }};
}

}  // namespace distdl::data
