// SPDX-License-Identifier: Apache-2.0
#include <set>
#include <vector>

#include <gmock/gmock.h>

#include "tests/data/scratch_folder.hpp"
#include <distdl/base/checksum.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/data/images.hpp>
#include <distdl/data/shapes.hpp>

namespace distdl::data {
namespace {

std::vector<std::uint8_t> draw(const ShapesOptions& options, std::int64_t sample) {
  std::vector<std::uint8_t> pixels(static_cast<std::size_t>(options.channels * options.size * options.size));
  draw_shape(options, sample, pixels);
  return pixels;
}

TEST(Shapes, DependOnlyOnTheSeedAndTheNumber) {
  ScratchFolder folder;
  make_shapes({.samples = 300}, folder / "many.h5", Overwrite::refuse);
  auto many = ImageSet::open(folder / "many.h5", 1);
  for (std::int64_t sample : {0, 17, 299}) {
    auto alone = draw({.samples = 1}, sample);
    EXPECT_THAT(many.pixels(sample), testing::ElementsAreArray(alone));
  }
  EXPECT_NE(draw({}, 0), draw({}, 1));
  EXPECT_NE(draw({.seed = 1}, 0), draw({.seed = 2}, 0));
}

// The same images on every machine and with every later version, or figures could not be compared.
TEST(Shapes, NeverChange) {
  std::uint32_t checksum = 0;
  for (std::int64_t sample = 0; sample < 100; ++sample) {
    auto pixels = draw({}, sample);
    checksum = crc32c(std::as_bytes(std::span(pixels)), checksum);
  }
  EXPECT_EQ(checksum, 1921916800u);
}

TEST(Shapes, HaveTheSizeChannelsAndClassesAskedFor) {
  ScratchFolder folder;
  auto about =
      make_shapes({.samples = 200, .size = 40, .channels = 3, .classes = 4}, folder / "a.h5", Overwrite::refuse);
  EXPECT_EQ(about.shape, (tensor::Shape{3, 40, 40}));
  auto set = ImageSet::open(folder / "a.h5", 1);
  EXPECT_EQ((std::set<std::int32_t>(set.labels().begin(), set.labels().end())), (std::set<std::int32_t>{0, 1, 2, 3}));
}

TEST(Shapes, ComeInAboutEqualNumbers) {
  std::vector<std::uint8_t> pixels(64);
  std::vector<int> counts(10);
  for (std::int64_t sample = 0; sample < 5000; ++sample)
    ++counts[static_cast<std::size_t>(draw_shape({.size = 8}, sample, pixels))];
  EXPECT_THAT(counts, testing::Each(testing::AllOf(testing::Gt(400), testing::Lt(600))));
}

TEST(Shapes, AreSmoothWithoutNoiseAndRoughWithIt) {
  auto roughness = [](double noise) {
    double sum = 0;
    for (std::int64_t sample = 0; sample < 20; ++sample) {
      auto pixels = draw({.size = 64, .noise = noise}, sample);
      for (std::size_t i = 1; i < 64; ++i) sum += std::abs(int{pixels[i]} - int{pixels[i - 1]});  // first row
    }
    return sum / (20 * 63) / 255;
  };
  EXPECT_LT(roughness(0), 0.02);
  EXPECT_GT(roughness(0.2), 0.1);
}

TEST(Shapes, RefuseImpossibleOptions) {
  std::vector<std::uint8_t> pixels(784);
  EXPECT_THROW(draw_shape({.size = 7}, 0, pixels), ConfigError);
  EXPECT_THROW(draw_shape({.channels = 0}, 0, pixels), ConfigError);
  EXPECT_THROW(draw_shape({.classes = 11}, 0, pixels), ConfigError);
  EXPECT_THROW(draw_shape({.noise = -1}, 0, pixels), ConfigError);
  EXPECT_THROW(draw_shape({.size = 29}, 0, pixels), ConfigError);
  EXPECT_THROW(make_shapes({.samples = 0}, "unused.h5", Overwrite::refuse), ConfigError);
}

}  // namespace
}  // namespace distdl::data
