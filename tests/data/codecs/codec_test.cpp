// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <random>

#include <gmock/gmock.h>
#include <png.h>

#include "tests/data/example_images.hpp"
#include <distdl/data/codecs/codec.hpp>
#include <distdl/data/codecs/framed_image.hpp>

namespace distdl::data {
namespace {
using testing::HasSubstr;
using Bytes = std::vector<std::uint8_t>;

std::span<const std::byte> bytes_of(const std::string& file) {
  return std::as_bytes(std::span(file));
}

DecodedPart decode(const std::string& file, const Rectangle& wanted, int divisor = 1) {
  DecodedPart part;
  codec_of(bytes_of(file)).decode(bytes_of(file), wanted, divisor, part);
  return part;
}

Bytes decode_whole(const std::string& file) {
  const ImageHead head = codec_of(bytes_of(file)).head(bytes_of(file));
  return decode(file, {0, 0, head.width, head.height}).rgb;
}

std::string why_broken(const std::string& file) {
  try {
    DecodedPart part;
    std::array<std::uint64_t, 256> counts{};
    check_image(bytes_of(file), part, counts);
  } catch (const BrokenImage& error) {
    return error.what();
  }
  return "not broken";
}

/// The part of a whole image.
Bytes cut(const Bytes& rgb, std::int64_t width, const Rectangle& wanted) {
  Bytes part;
  for (std::int64_t y = wanted.top; y < wanted.top + wanted.height; ++y) {
    const auto row = rgb.begin() + (y * width + wanted.left) * 3;
    part.insert(part.end(), row, row + wanted.width * 3);
  }
  return part;
}

TEST(Jpeg, PartsAreThoseOfTheWholeAtEachScale) {
  std::mt19937 random(1);
  const auto below = [&random](std::int64_t count) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint32_t>(count));
  };
  constexpr std::int64_t kWidth = 203, kHeight = 157;
  const Bytes rgb = example_rgb(kWidth, kHeight);
  for (const JpegExample& example : {JpegExample{}, JpegExample{.sampling = 1}, JpegExample{.is_progressive = true}}) {
    const std::string file = jpeg_of(rgb, kWidth, kHeight, example);
    for (const int divisor : {1, 2, 4, 8}) {
      const std::int64_t width = (kWidth + divisor - 1) / divisor, height = (kHeight + divisor - 1) / divisor;
      const DecodedPart whole = decode(file, {0, 0, width, height}, divisor);
      ASSERT_EQ(whole.place.width, width);
      for (int i = 0; i < 40; ++i) {
        Rectangle wanted{below(width), below(height)};
        wanted.width = 1 + below(width - wanted.left);
        wanted.height = 1 + below(height - wanted.top);
        const DecodedPart part = decode(file, wanted, divisor);
        ASSERT_LE(part.place.left, wanted.left);
        const Rectangle inside{wanted.left - part.place.left, wanted.top - part.place.top, wanted.width, wanted.height};
        ASSERT_EQ(cut(part.rgb, part.place.width, inside), cut(whole.rgb, width, wanted))
            << "scale 1/" << divisor << ", " << wanted.left << " " << wanted.top << " " << wanted.width << " "
            << wanted.height;
      }
    }
  }
}

TEST(Jpeg, IsGreyColourOrInvertedCmyk) {
  const Bytes grey(16 * 16, 90), cmyk = [] {
    Bytes values;
    for (int i = 0; i < 16 * 16; ++i) values.insert(values.end(), {255, 155, 0, 200});
    return values;
  }();
  EXPECT_THAT(decode_whole(jpeg_of(grey, 16, 16, {.components = 1, .quality = 100})), testing::Each(90));
  const Bytes colours = decode_whole(jpeg_of(cmyk, 16, 16, {.components = 4, .quality = 100}));
  // Pillow 13: Image.open(...).convert("RGB").getpixel((5, 5))
  EXPECT_THAT(Bytes(colours.begin(), colours.begin() + 3), testing::ElementsAre(200, 122, 0));
}

TEST(Jpeg, IsTurnedByItsOrientation) {
  constexpr std::int64_t kExtent = 64;
  Bytes quarters;  // 0 to 3 clockwise from the left top
  for (std::int64_t y = 0; y < kExtent; ++y)
    for (std::int64_t x = 0; x < kExtent; ++x)
      quarters.insert(quarters.end(), 3, static_cast<std::uint8_t>(60 * (y < 32 ? x >= 32 : 3 - (x >= 32))));
  static constexpr std::array<const char*, 9> kExpected{"0123", "0123", "1032", "2301", "3210",
                                                        "0321", "3012", "2103", "1230"};
  for (int orientation = 0; orientation <= 8; ++orientation) {
    const std::string file = jpeg_of(quarters, kExtent, kExtent, {.quality = 100, .orientation = orientation});
    const auto corners = [&](bool upright) {
      ImageFramer framer;
      framer.decode(
          bytes_of(file), [](auto width, auto height) { return centre_frame(width, height, 16, 16); }, 16, upright);
      Bytes window(16 * 16);
      framer.write(1, window.data());
      std::string seen;
      for (const std::size_t at : {3 * 16 + 3, 3 * 16 + 12, 12 * 16 + 12, 12 * 16 + 3})
        seen += static_cast<char>('0' + (window[at] + 30) / 60);
      return seen;
    };
    EXPECT_EQ(corners(true), kExpected[static_cast<std::size_t>(orientation)]) << orientation;
    EXPECT_EQ(corners(false), "0123") << orientation;
  }
}

TEST(Png, IsConvertedToColoursOfEightBits) {
  const Bytes rgb = example_rgb(37, 21);
  EXPECT_EQ(decode_whole(png_of(rgb, 37, 21, PNG_COLOR_TYPE_RGB)), rgb);
  EXPECT_EQ(decode_whole(png_of(rgb, 37, 21, PNG_COLOR_TYPE_RGB, 8, true)), rgb) << "interlaced";
  Bytes wide, with_alpha, grey_of(37 * 21), expected;
  for (std::size_t i = 0; i < rgb.size(); ++i) {
    wide.insert(wide.end(), {rgb[i], static_cast<std::uint8_t>(i)});
    with_alpha.push_back(rgb[i]);
    if (i % 3 == 2) with_alpha.push_back(static_cast<std::uint8_t>(i));
  }
  EXPECT_EQ(decode_whole(png_of(wide, 37, 21, PNG_COLOR_TYPE_RGB, 16)), rgb) << "the upper 8 of 16 bits";
  EXPECT_EQ(decode_whole(png_of(with_alpha, 37, 21, PNG_COLOR_TYPE_RGBA)), rgb) << "as if it were opaque";
  for (std::size_t i = 0; i < grey_of.size(); ++i) {
    grey_of[i] = static_cast<std::uint8_t>(i);
    expected.insert(expected.end(), 3, grey_of[i]);
  }
  EXPECT_EQ(decode_whole(png_of(grey_of, 37, 21, PNG_COLOR_TYPE_GRAY)), expected);
  for (std::size_t i = 0; i < grey_of.size(); ++i) {
    expected[3 * i + 1] = static_cast<std::uint8_t>(255 - grey_of[i]);
    expected[3 * i + 2] = grey_of[i] / 2;
  }
  EXPECT_EQ(decode_whole(png_of(grey_of, 37, 21, PNG_COLOR_TYPE_PALETTE)), expected);
}

TEST(WebpAndPpm, KeepColours) {
  const Bytes rgb = example_rgb(37, 21);
  EXPECT_EQ(decode_whole(webp_of(rgb, 37, 21)), rgb);
  EXPECT_EQ(decode_whole(ppm_of(rgb, 37, 21)), rgb);
  EXPECT_EQ(decode_whole("P5 # a comment\n2 1 255 AB"), (Bytes{'A', 'A', 'A', 'B', 'B', 'B'}));
}

TEST(BrokenImages, AreToldWithTheCause) {
  const Bytes rgb = example_rgb(200, 150);
  const std::string jpeg = jpeg_of(rgb, 200, 150), png = png_of(rgb, 200, 150, PNG_COLOR_TYPE_RGB),
                    webp = webp_of(rgb, 200, 150);
  EXPECT_EQ(why_broken(jpeg), "not broken");
  for (const std::string& file : {jpeg, png, webp, ppm_of(rgb, 200, 150)})
    for (const std::size_t left : {std::size_t{12}, std::size_t{40}, file.size() / 2, file.size() * 9 / 10})
      EXPECT_THAT(why_broken(file.substr(0, left)), HasSubstr("damaged")) << left << " of " << file.substr(0, 4);
  std::string flipped = png;
  flipped[png.size() / 2] ^= 1;
  EXPECT_THAT(why_broken(flipped), HasSubstr("damaged PNG"));
  EXPECT_EQ(why_broken(""), "it is empty");
  EXPECT_THAT(why_broken("GIF89a..."), HasSubstr("it is a GIF image, but JPEG"));
  EXPECT_THAT(why_broken("version https://git-lfs.github.com/spec/v1\n"), HasSubstr("Git LFS pointer"));
  EXPECT_THAT(why_broken("hello, this is text"), HasSubstr("it is no image"));
  EXPECT_THAT(why_broken("P6 9 9 65535\n"), HasSubstr("65535"));
}

TEST(BrokenImages, TakeNoMemoryForWhatTheyOnlyAnnounce) {
  const Bytes rgb = example_rgb(20, 20);
  std::string png = png_of(rgb, 20, 20, PNG_COLOR_TYPE_RGB), jpeg = jpeg_of(rgb, 20, 20);
  const auto frame = jpeg.find("\xff\xc0");
  ASSERT_NE(frame, std::string::npos);
  jpeg.replace(frame + 5, 4, "\x27\x10\x27\x10");  // 10000 x 10000
  EXPECT_THAT(why_broken(jpeg), HasSubstr("10000 x 10000 pixels in"));
  jpeg.replace(frame + 5, 4, "\xff\xdc\xff\xdc");
  EXPECT_THAT(why_broken(jpeg), HasSubstr("65500 x 65500 pixels, but at most 178956970 are read"));
  EXPECT_THAT(why_broken("P6 2000000000 2000000000 255\n"), HasSubstr("pixels"));
}

TEST(Resampling, LeavesAConstantAndAnImageOfTheSameSizeAsTheyAre) {
  const Bytes rgb = example_rgb(33, 33);
  const std::string same = ppm_of(rgb, 33, 33), flat = ppm_of(Bytes(50 * 41 * 3, 77), 50, 41);
  const auto window = [](const std::string& file, std::int64_t size, std::int64_t resize) {
    ImageFramer framer;
    framer.decode(
        bytes_of(file), [&](auto width, auto height) { return centre_frame(width, height, size, resize); }, size,
        false);
    Bytes planes(static_cast<std::size_t>(3 * size * size));
    framer.write(3, planes.data());
    return planes;
  };
  const Bytes planes = window(same, 33, 33);
  for (std::size_t i = 0; i < rgb.size(); ++i) ASSERT_EQ(planes[i % 3 * 33 * 33 + i / 3], rgb[i]);
  EXPECT_THAT(window(flat, 20, 23), testing::Each(77));
  EXPECT_THAT(window(flat, 90, 100), testing::Each(77));
}

}  // namespace
}  // namespace distdl::data
