// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>

#include "tests/data/scratch_folder.hpp"
#include <distdl/base/checksum.hpp>
#include <distdl/data/mixing.hpp>
#include <distdl/data/transforms/mix.hpp>
#include <distdl/data/transforms/rand_augment.hpp>
#include <distdl/data/transforms/transform.hpp>

namespace distdl::data {
namespace {

TEST(RandomResizedCrop, HasTheRangesOfTorchvision) {
  double least = 1, most = 0, widest = 0, tallest = 0;
  for (std::int64_t sample = 0; sample < 4000; ++sample) {
    Draws draws(1, 2, 3, sample);
    const Frame frame = random_crop(draws, 0.08, 500, 375, 224);
    EXPECT_GE(frame.left, 0);
    EXPECT_GE(frame.top, 0);
    EXPECT_LE(frame.left + frame.width, 500);
    EXPECT_LE(frame.top + frame.height, 375);
    EXPECT_EQ(frame.resized_width, 224);
    const double area = frame.width * frame.height / (500 * 375);
    least = std::min(least, area), most = std::max(most, area);
    widest = std::max(widest, frame.width / frame.height), tallest = std::max(tallest, frame.height / frame.width);
  }
  EXPECT_NEAR(least, 0.08, 0.01);
  EXPECT_NEAR(most, 1, 0.02);
  EXPECT_NEAR(widest, 4.0 / 3, 0.02);
  EXPECT_NEAR(tallest, 4.0 / 3, 0.02);
}

TEST(RandomResizedCrop, TakesTheCentreOfWhatIsTooLong) {
  Draws draws(1, 2, 3, 4);
  const Frame wide = random_crop(draws, 1, 1000, 30, 8), tall = random_crop(draws, 1, 30, 1000, 8);
  EXPECT_THAT((std::array{wide.left, wide.top, wide.width, wide.height}), testing::ElementsAre(480, 0, 40, 30));
  EXPECT_THAT((std::array{tall.left, tall.top, tall.width, tall.height}), testing::ElementsAre(0, 480, 30, 40));
}

TEST(Transforms, HaveNamesAndStreamsOfTheirOwn) {
  std::set<std::string_view> names;
  std::set<std::uint64_t> streams;
  for (const Transform& each : transforms()) names.insert(each.name), streams.insert(each.stream);
  EXPECT_EQ(names.size(), transforms().size());
  EXPECT_EQ(streams.size(), transforms().size());
  Draws once(7, 1, 2, 3), again(7, 1, 2, 3), other(7, 1, 2, 4);
  int same = 0;
  for (int i = 0; i < 100; ++i) {
    const auto bits = once.bits();
    EXPECT_EQ(bits, again.bits());
    same += bits == other.bits();
  }
  EXPECT_EQ(same, 0);
}

/// As in check_with_torchvision.py.
std::vector<std::uint8_t> example_planes(std::int64_t width, std::int64_t height, std::int64_t channels) {
  std::vector<std::uint8_t> planes;
  for (std::int64_t c = 0; c < channels; ++c)
    for (std::int64_t y = 0; y < height; ++y)
      for (std::int64_t x = 0; x < width; ++x)
        planes.push_back(
            static_cast<std::uint8_t>((x * (c + 2) * 3 + y * (5 - c) + (x / 7) * (y / 5) * 29) % 211 + 17));
  return planes;
}

constexpr std::array<std::pair<std::string_view, void (*)(const Pixels&, double)>, 4> kJitters{
    {{"brightness", &adjust_brightness},
     {"contrast", &adjust_contrast},
     {"saturation", &adjust_saturation},
     {"hue", &adjust_hue}}};

/// `strength`: a magnitude of RandAugment with its sign, or the factor of an operation of ColorJitter.
std::uint32_t checksum_of(std::int64_t width, std::int64_t height, std::int64_t channels, std::string_view operation,
                          const std::string& strength) {
  auto planes = example_planes(width, height, channels);
  const Pixels image{channels, height, width, planes.data()};
  for (const auto& [name, adjust] : kJitters)
    if (name == operation) adjust(image, std::strtod(strength.c_str(), nullptr));
  for (const RandomOperation& each : random_operations()) {
    if (each.name != operation) continue;
    const bool is_negative = strength.starts_with('-');
    const auto magnitude = std::strtol(strength.c_str() + is_negative, nullptr, 10);
    const double by = each.strength(magnitude, operation == "TranslateY" ? height : width);
    each.apply(image, is_negative ? -by : by);
  }
  return crc32c(std::as_bytes(std::span(planes)));
}

// The numbers are those of torchvision 0.29 and Pillow 13.
TEST(PixelOperations, GiveTheBytesOfTorchvision) {
  struct Case {
    std::string_view operation;
    std::string strength;
    std::uint32_t checksum;
  };
  const std::vector<Case> cases{
      {"Identity", "9", 3558891544u},      {"ShearX", "9", 3369257193u},      {"ShearY", "9", 398686533u},
      {"TranslateX", "9", 1890540599u},    {"TranslateY", "9", 910844366u},   {"Rotate", "9", 3330086994u},
      {"Brightness", "9", 1649714683u},    {"Color", "9", 871360646u},        {"Contrast", "9", 2131952781u},
      {"Sharpness", "9", 1210476908u},     {"Posterize", "9", 1091914935u},   {"Solarize", "9", 615161519u},
      {"AutoContrast", "9", 1022353236u},  {"Equalize", "9", 1166806903u},    {"Rotate", "-9", 2820587048u},
      {"ShearX", "-9", 3866236901u},       {"brightness", "0.7", 698216507u}, {"contrast", "1.4", 941136497u},
      {"saturation", "0.25", 3587355120u}, {"hue", "-0.1", 3529276u},
  };
  for (const auto& [operation, strength, checksum] : cases)
    EXPECT_EQ(checksum_of(23, 17, 3, operation, strength), checksum) << operation << " " << strength;
}

TEST(PixelOperations, AreThoseOfTheTorchvisionThatIsInstalled) {
  if (std::system("python3 -c 'import torchvision, PIL, numpy' >/dev/null 2>&1") != 0)
    GTEST_SKIP() << "no python3 with torchvision";
  ScratchFolder folder;
  std::ofstream lines(folder / "results");
  std::vector<std::string_view> operations;
  const auto add = [&](std::int64_t width, std::int64_t height, std::int64_t channels, std::string_view operation,
                       const std::string& strength) {
    lines << fmt::format("{} {} {} {} {} {}\n", width, height, channels, operation, strength,
                         checksum_of(width, height, channels, operation, strength));
  };
  for (const auto [width, height, channels] : {std::array{64, 48, 3}, {31, 33, 1}, {1, 1, 3}}) {
    for (const RandomOperation& each : random_operations())
      for (int magnitude = 0; magnitude < kMagnitudes; magnitude += 3)
        for (const char* sign : {"", "-"})
          if (*sign == 0 || each.is_signed) add(width, height, channels, each.name, sign + std::to_string(magnitude));
    for (const auto& [name, adjust] : kJitters)
      for (const double by : {0.0, 0.3, 0.9, 1.0, 1.05, 1.6, 2.5})
        add(width, height, channels, name, fmt::format("{}", name == "hue" ? (by - 1) / 3.2 : by));
  }
  lines.close();
  for (const RandomOperation& each : random_operations()) operations.push_back(each.name);
  const auto command = fmt::format("python3 {}/tests/data/check_with_torchvision.py '{}' {}", DISTDL_SOURCE_DIR,
                                   (folder / "results").string(), fmt::join(operations, ","));
  EXPECT_EQ(std::system(command.c_str()), 0) << command;
}

TEST(ColorJitter, DrawsFactorsAndOrderFromTheSampleAlone) {
  EXPECT_EQ(jitter_range(1, 0.4), std::pair(0.6, 1.4));
  EXPECT_EQ(jitter_range(1, 1.5), std::pair(0.0, 2.5));
  EXPECT_EQ(jitter_range(0, 0.25), std::pair(-0.25, 0.25));
  Options options;
  options.color_jitter = {0.4, 0.4, 0.4, 0.1};
  options.rand_augment = 2;
  const SampleTransforms one(options, 7, true), evaluation(options, 7, false);
  EXPECT_TRUE(one.changes_pixels());
  EXPECT_FALSE(evaluation.changes_pixels());
  std::set<std::vector<std::uint8_t>> all;
  for (std::int64_t sample = 0; sample < 20; ++sample) {
    auto planes = example_planes(23, 17, 3), again = planes;
    one.pixels(2, sample, {3, 17, 23, planes.data()});
    SampleTransforms(options, 7, true).pixels(2, sample, {3, 17, 23, again.data()});
    EXPECT_EQ(planes, again);
    all.insert(planes);
  }
  EXPECT_GE(all.size(), 19u);
}

TEST(RandomErasing, ErasesRectanglesOfTheUsualSizes) {
  Options options;
  options.random_erasing = 0.25;
  const SampleTransforms transforms(options, 7, true);
  constexpr std::int64_t kSamples = 2000, kSide = 64;
  std::int64_t erased = 0;
  for (std::int64_t sample = 0; sample < kSamples; ++sample) {
    std::vector<float> values(3 * kSide * kSide, 1.0f);
    transforms.values(1, sample, {3, kSide, kSide, values.data()});
    std::int64_t count = 0, top = kSide, left = kSide, bottom = -1, right = -1;
    for (std::int64_t y = 0; y < kSide; ++y)
      for (std::int64_t x = 0; x < kSide; ++x) {
        const auto at = static_cast<std::size_t>(y * kSide + x);
        ASSERT_EQ(values[at], values[at + 2 * kSide * kSide]);
        if (values[at] != 0) continue;
        ++count, top = std::min(top, y), left = std::min(left, x), bottom = std::max(bottom, y),
                 right = std::max(right, x);
      }
    if (count == 0) continue;
    ++erased;
    EXPECT_EQ(count, (bottom - top + 1) * (right - left + 1));
    EXPECT_NEAR(static_cast<double>(count) / (kSide * kSide), 0.175, 0.165);
  }
  EXPECT_NEAR(static_cast<double>(erased) / kSamples, 0.25, 0.03);
}

TEST(Beta, HasMeanAndVarianceOfTheDistribution) {
  for (const double alpha : {0.01, 0.2, 0.8, 1.0, 4.0, 100.0}) {
    double sum = 0, squares = 0;
    constexpr int kCount = 20000;
    for (int i = 0; i < kCount; ++i) {
      Draws draws(3, 5, 0, i);
      const double x = beta(draws, alpha);
      ASSERT_TRUE(x >= 0 && x <= 1) << x;
      sum += x;
      squares += (x - 0.5) * (x - 0.5);
    }
    EXPECT_NEAR(sum / kCount, 0.5, 0.015) << alpha;
    const double variance = 1 / (4 * (2 * alpha + 1));
    EXPECT_NEAR(squares / kCount, variance, 0.03 * variance + 1e-4) << alpha;
  }
}

Batch batch_of(std::int64_t count, const tensor::Shape& image) {
  Batch batch;
  batch.values.resize(static_cast<std::size_t>(count * tensor::element_count(image)));
  std::iota(batch.values.begin(), batch.values.end(), 0.0f);
  for (std::int32_t i = 0; i < count; ++i) batch.labels.push_back(10 + i);
  return batch;
}

TEST(Mixing, OfTwoImagesIsThatOfTheirLabels) {
  const tensor::Shape image{3, 8, 6};
  constexpr std::int64_t kImageSize = 3 * 8 * 6;
  for (const bool cuts : {false, true}) {
    Options options;
    (cuts ? options.cutmix : options.mixup) = 1;
    const Mixing mixing(options, 7);
    std::set<float> shares;
    for (std::int64_t sample = 0; sample < 40; ++sample) {
      const Batch before = batch_of(4, image);
      Batch batch = before, again = before;
      mixing(1, sample, image, batch);
      mixing(1, sample, image, again);
      EXPECT_EQ(batch.values, again.values);
      EXPECT_EQ(batch.labels, again.labels);
      ASSERT_EQ(batch.labels.size(), 12u);
      const float share = std::bit_cast<float>(batch.labels[8]);
      shares.insert(share);
      for (std::size_t i = 0; i < 4; ++i) {
        const std::size_t other = (i + 3) % 4;
        EXPECT_EQ(batch.labels[i], before.labels[i]);
        EXPECT_EQ(batch.labels[4 + i], before.labels[other]);
        EXPECT_EQ(std::bit_cast<float>(batch.labels[8 + i]), share);
        std::int64_t own = 0;
        for (std::size_t v = 0; v < std::size_t{kImageSize}; ++v) {
          const float value = batch.values[i * kImageSize + v], mine = before.values[i * kImageSize + v],
                      theirs = before.values[other * kImageSize + v];
          own += value == mine;
          if (cuts)
            EXPECT_TRUE(value == mine || value == theirs);
          else
            EXPECT_NEAR(value, share * mine + (1 - share) * theirs, 1e-3);
        }
        if (cuts) {
          EXPECT_NEAR(static_cast<double>(own) / kImageSize, share, 1e-6);
        }
      }
    }
    EXPECT_GE(shares.size(), 8u);
  }
}

TEST(Mixing, TakesEachWayForHalfOfTheBatchesAndNoneWithoutKeys) {
  const tensor::Shape image{1, 4, 4};
  Options options;
  options.mixup = options.cutmix = 1;
  int cut = 0;
  for (std::int64_t sample = 0; sample < 400; ++sample) {
    const Batch before = batch_of(2, image);
    Batch batch = before;
    Mixing(options, 7)(0, sample, image, batch);
    cut += std::ranges::all_of(batch.values, [](float value) { return value == std::floor(value); });
  }
  EXPECT_NEAR(cut, 200, 40);
  Batch batch = batch_of(2, image);
  Mixing()(0, 0, image, batch);
  EXPECT_EQ(batch.labels.size(), 2u);
  with_whole_shares(batch);
  EXPECT_THAT(batch.labels, testing::ElementsAre(10, 11, 10, 11, std::bit_cast<std::int32_t>(1.0f),
                                                 std::bit_cast<std::int32_t>(1.0f)));
}

}  // namespace
}  // namespace distdl::data
