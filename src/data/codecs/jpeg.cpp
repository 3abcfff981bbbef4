// SPDX-License-Identifier: Apache-2.0
// JPEG by libjpeg-turbo: rows outside the wanted part are not decoded, and an image may be decoded at a smaller scale.
#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdio>  // jpeglib.h wants it first

#include <jerror.h>
#include <jpeglib.h>

#include <distdl/data/codecs/codec.hpp>
#include <distdl/data/codecs/exif.hpp>
#include <distdl/data/codecs/guarded.hpp>

namespace distdl::data {
namespace {
constexpr int kMostScans = 100;       // a usual progressive image has 10
constexpr std::int64_t kMargin = 16;  // pixels around a part, for the interpolation of colours at its edges

/// A decoder of one image.
class Jpeg {
 public:
  explicit Jpeg(std::span<const std::byte> bytes) {
    decoder_.err = jpeg_std_error(&errors_);
    decoder_.client_data = this;
    errors_.error_exit = [](j_common_ptr decoder) { fail(decoder); };
    errors_.emit_message = [](j_common_ptr decoder, int level) {
      // Pillow, too, refuses an image that ends too early, and reads on after other warnings.
      if (level < 0 && decoder->err->msg_code == JWRN_JPEG_EOF) fail(decoder);
    };
    progress_.progress_monitor = [](j_common_ptr decoder) {
      if (reinterpret_cast<j_decompress_ptr>(decoder)->input_scan_number > kMostScans) self(decoder).too_many_scans();
    };
    guard([&] {
      jpeg_create_decompress(&decoder_);
      decoder_.progress = &progress_;
      jpeg_mem_src(&decoder_, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
      jpeg_save_markers(&decoder_, JPEG_APP0 + 1, 0xffff);
      jpeg_read_header(&decoder_, TRUE);
    });
    try {
      check_head(bytes.size());
    } catch (...) {
      jpeg_destroy_decompress(&decoder_);
      throw;
    }
  }
  ~Jpeg() { jpeg_destroy_decompress(&decoder_); }
  Jpeg(const Jpeg&) = delete;
  Jpeg& operator=(const Jpeg&) = delete;

  ImageHead head() const {
    int orientation = 1;
    for (const auto* marker = decoder_.marker_list; marker; marker = marker->next)
      if (orientation == 1)
        orientation = orientation_of(std::as_bytes(std::span(marker->data, marker->data_length)), kExifOfJpeg);
    return {decoder_.image_width, decoder_.image_height, orientation};
  }

  void decode(const Rectangle& wanted, int divisor, DecodedPart& part) {
    const bool is_cmyk = decoder_.num_components == 4;
    decoder_.out_color_space = is_cmyk ? JCS_CMYK : JCS_RGB;
    decoder_.scale_num = 1;
    decoder_.scale_denom = static_cast<unsigned>(divisor);
    JDIMENSION left = 0, width = 0;
    guard([&] {
      jpeg_start_decompress(&decoder_);
      left = static_cast<JDIMENSION>(std::max<std::int64_t>(0, wanted.left - kMargin));
      width = static_cast<JDIMENSION>(
          std::min<std::int64_t>(decoder_.output_width, wanted.left + wanted.width + kMargin) - left);
      if (width < decoder_.output_width) jpeg_crop_scanline(&decoder_, &left, &width);
      width = decoder_.output_width;
    });
    const std::int64_t top = std::max<std::int64_t>(0, wanted.top - kMargin);
    part.place = {left, wanted.top, width, wanted.height};
    const std::size_t stride = std::size_t{width} * static_cast<std::size_t>(decoder_.output_components);
    part.rgb.resize(stride * static_cast<std::size_t>(wanted.height));
    auto* const rows = part.rgb.data();
    guard([&] {
      if (top > 0) jpeg_skip_scanlines(&decoder_, static_cast<JDIMENSION>(top));
      for (std::int64_t row = top; row < wanted.top + wanted.height; ++row) {
        JSAMPROW line = rows + stride * static_cast<std::size_t>(std::max<std::int64_t>(0, row - wanted.top));
        jpeg_read_scanlines(&decoder_, &line, 1);
      }
      jpeg_abort_decompress(&decoder_);
    });
    if (is_cmyk) to_rgb(part);
  }

 private:
  /// Before memory is taken: the head of a damaged file may announce anything.
  void check_head(std::size_t bytes) const {
    constexpr std::size_t kMostPixelsPerByte = 512;  // a block of 64 pixels takes a bit or more
    require_extents(decoder_.image_width, decoder_.image_height);
    const int components = decoder_.num_components;
    require<BrokenImage>(components == 1 || components == 3 || components == 4,
                         "it has {} components a pixel, but 1 (grey), 3 (colour) or 4 (CMYK) are expected", components);
    require<BrokenImage>(
        decoder_.arith_code || std::size_t{decoder_.image_width} * decoder_.image_height <= bytes * kMostPixelsPerByte,
        "damaged JPEG: {} x {} pixels in {} bytes", decoder_.image_width, decoder_.image_height, bytes);
  }
  static Jpeg& self(j_common_ptr decoder) { return *static_cast<Jpeg*>(decoder->client_data); }
  [[noreturn]] static void fail(j_common_ptr decoder) {
    decoder->err->format_message(decoder, self(decoder).why_.data());
    std::longjmp(self(decoder).place_, 1);  // NOLINT(cert-err52-cpp)
  }
  [[noreturn]] void too_many_scans() {
    std::snprintf(why_.data(), why_.size(), "more than %d scans", kMostScans);
    std::longjmp(place_, 1);  // NOLINT(cert-err52-cpp)
  }
  template <class Step>
  void guard(const Step& step) {
    if (guarded(place_, step)) return;
    const std::string why = why_.data();
    jpeg_destroy_decompress(&decoder_);  // a constructor that throws has no destructor
    throw BrokenImage("damaged JPEG: " + why);
  }
  /// Adobe's programs store inverted values. With Pillow's rounding.
  static void to_rgb(DecodedPart& part) {
    const auto times = [](int a, int b) { return ((a * b + 128) + ((a * b + 128) >> 8)) >> 8; };
    const std::size_t pixels = part.rgb.size() / 4;
    for (std::size_t i = 0; i < pixels; ++i) {
      const int white = part.rgb[4 * i + 3];  // 255 - black
      for (std::size_t c = 0; c < 3; ++c)
        part.rgb[3 * i + c] = static_cast<std::uint8_t>(white - times(255 - part.rgb[4 * i + c], white));
    }
    part.rgb.resize(3 * pixels);
  }

  jpeg_decompress_struct decoder_{};
  jpeg_error_mgr errors_{};
  jpeg_progress_mgr progress_{};
  std::jmp_buf place_{};
  std::array<char, JMSG_LENGTH_MAX> why_{};
};

}  // namespace

Codec jpeg_codec() {
  return {.name = "JPEG",
          .begins =
              [](std::span<const std::byte> bytes) {
                return bytes.size() > 2 && bytes[0] == std::byte{0xff} && bytes[1] == std::byte{0xd8} &&
                       bytes[2] == std::byte{0xff};
              },
          .head = [](std::span<const std::byte> bytes) { return Jpeg(bytes).head(); },
          .decode = [](std::span<const std::byte> bytes, const Rectangle& wanted, int divisor,
                       DecodedPart& part) { Jpeg(bytes).decode(wanted, divisor, part); },
          .scales_down = true};
}

}  // namespace distdl::data
