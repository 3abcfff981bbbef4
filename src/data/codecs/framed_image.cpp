// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include <distdl/data/codecs/exif.hpp>
#include <distdl/data/codecs/framed_image.hpp>
#include <distdl/data/codecs/resample.hpp>

namespace distdl::data {
namespace {
/// A part that is to shrink is decoded at a smaller scale that is at least twice the size, where the filter hides the
/// difference. Pillow does so for thumbnails.
int divisor_of(const Frame& frame) {
  constexpr double kGap = 2;
  for (const int divisor : {8, 4, 2})
    if (frame.width >= kGap * divisor * static_cast<double>(frame.resized_width) &&
        frame.height >= kGap * divisor * static_cast<double>(frame.resized_height))
      return divisor;
  return 1;
}

/// A frame of the upright image in the stored image, which is turned later.
Frame before_turn(Frame frame, const Turn& turn, std::int64_t width, std::int64_t height, std::int64_t size) {
  if (turn.mirrors_columns) {
    frame.left = static_cast<double>(width) - frame.left - frame.width;
    frame.x = frame.resized_width - frame.x - size;
  }
  if (turn.mirrors_rows) {
    frame.top = static_cast<double>(height) - frame.top - frame.height;
    frame.y = frame.resized_height - frame.y - size;
  }
  if (turn.exchanges) {
    std::swap(frame.left, frame.top);
    std::swap(frame.width, frame.height);
    std::swap(frame.resized_width, frame.resized_height);
    std::swap(frame.x, frame.y);
  }
  return frame;
}
}  // namespace

Frame centre_frame(std::int64_t width, std::int64_t height, std::int64_t size, std::int64_t resize) {
  const std::int64_t shorter = std::min(width, height), longer = std::max(width, height);
  const auto resized = static_cast<std::int64_t>(static_cast<double>(resize) * static_cast<double>(longer) /
                                                 static_cast<double>(shorter));
  Frame frame{0, 0, static_cast<double>(width), static_cast<double>(height)};
  frame.resized_width = width <= height ? resize : resized;
  frame.resized_height = width <= height ? resized : resize;
  const auto middle = [size](std::int64_t extent) {  // rounds halves to even, as Python does
    return static_cast<std::int64_t>(std::nearbyint(static_cast<double>(extent - size) / 2.0));
  };
  frame.x = middle(frame.resized_width);
  frame.y = middle(frame.resized_height);
  return frame;
}

void ImageFramer::decode(std::span<const std::byte> bytes, const Framing& framing, std::int64_t size, bool upright) {
  const Codec& codec = codec_of(bytes);
  const ImageHead head = codec.head(bytes);
  const Turn turn = turn_of(upright ? head.orientation : 1);
  const std::int64_t width = turn.exchanges ? head.height : head.width,
                     height = turn.exchanges ? head.width : head.height;
  const Frame chosen = framing(width, height);
  const Frame frame = before_turn(chosen, turn, width, height, size);
  const int divisor = codec.scales_down ? divisor_of(frame) : 1;
  const ResampledAxis columns(frame.left / divisor, frame.width / divisor, frame.resized_width, frame.x, size);
  const ResampledAxis rows(frame.top / divisor, frame.height / divisor, frame.resized_height, frame.y, size);
  codec.decode(bytes, {columns.from, rows.from, columns.to - columns.from, rows.to - rows.from}, divisor, part_);
  resample(part_.rgb, part_.place.left, part_.place.top, part_.place.width, columns, rows, between_, window_);
  size_ = size;
  exchanges_ = turn.exchanges;
  mirrors_columns_ = turn.mirrors_columns != chosen.mirrored;
  mirrors_rows_ = turn.mirrors_rows;
}

template <class Write>
void ImageFramer::each_pixel(const Write& write) const {
  const std::int64_t right = exchanges_ ? size_ * 3 : 3, down = exchanges_ ? 3 : size_ * 3;
  std::size_t place = 0;
  for (std::int64_t y = 0; y < size_; ++y) {
    const std::uint8_t* pixel = window_.data() + (mirrors_rows_ ? size_ - 1 - y : y) * down;
    if (mirrors_columns_) pixel += (size_ - 1) * right;
    const std::int64_t next = mirrors_columns_ ? -right : right;
    for (std::int64_t x = 0; x < size_; ++x, pixel += next) write(place++, pixel);
  }
}

void ImageFramer::write(std::int64_t channels, std::uint8_t* out) const {
  const auto plane = static_cast<std::size_t>(size_ * size_);
  if (channels == 3)
    each_pixel([&](std::size_t place, const std::uint8_t* pixel) {
      for (std::size_t c = 0; c < 3; ++c) out[c * plane + place] = pixel[c];
    });
  else
    each_pixel([&](std::size_t place, const std::uint8_t* pixel) {
      constexpr unsigned kRed = 19595, kGreen = 38470, kBlue = 7471, kHalf = 0x8000;
      out[place] = static_cast<std::uint8_t>((pixel[0] * kRed + pixel[1] * kGreen + pixel[2] * kBlue + kHalf) >> 16);
    });
}

void ImageFramer::write(std::span<const std::array<float, 256>> tables, float* out) const {
  const auto plane = static_cast<std::size_t>(size_ * size_);
  each_pixel([&](std::size_t place, const std::uint8_t* pixel) {
    for (std::size_t c = 0; c < 3; ++c) out[c * plane + place] = tables[c][pixel[c]];
  });
}

void check_image(std::span<const std::byte> bytes, DecodedPart& memory, std::array<std::uint64_t, 256>& histogram) {
  constexpr std::int64_t kEvery = 8;
  const Codec& codec = codec_of(bytes);
  const ImageHead head = codec.head(bytes);
  codec.decode(bytes, {0, 0, head.width, head.height}, 1, memory);
  const auto row = static_cast<std::size_t>(head.width * 3);
  for (std::int64_t y = 0; y < head.height; y += kEvery)
    for (std::size_t i = 0; i < row; ++i) ++histogram[memory.rgb[static_cast<std::size_t>(y) * row + i]];
}

}  // namespace distdl::data
