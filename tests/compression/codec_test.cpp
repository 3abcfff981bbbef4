// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include <distdl/base/philox.hpp>
#include <distdl/compression/codec.hpp>
#include <distdl/compression/loops/loops.hpp>

namespace distdl::compression {
namespace {
constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// Values of different size, from 2^-20 to 1.
std::vector<float> values(std::size_t count, std::uint64_t key = 1) {
  std::vector<float> all(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto bits = Philox::block(key, 0, i);
    all[i] = (Philox::uniform(bits[0]) - 0.5F) * std::exp2(-static_cast<float>(bits[1] % 20));
  }
  return all;
}

struct Coded {
  std::vector<std::byte> code;
  std::vector<float> decoded, residual;
};
Coded coded(const Codec& codec, std::vector<float> from) {
  Coded result{std::vector<std::byte>(codec.bytes(from.size())), std::vector<float>(from.size()), {}};
  codec.encode(from, result.code.data());
  codec.decode(result.code.data(), result.decoded);
  result.residual = std::move(from);
  return result;
}

TEST(Codec, WhatIsDecodedAndTheResidualAreTheValue) {
  for (const Format* format : kFormats)
    for (const std::size_t count : {0, 1, 2, 3, 15, 31, 33, 255, 256, 257, 1023, 1024}) {
      const auto from = values(count);
      const auto [code, decoded, residual] = coded({format, 0.03}, from);
      EXPECT_EQ(code.size() % 4, 0U);
      for (std::size_t i = 0; i < count; ++i) {
        ASSERT_EQ(residual[i], from[i] - decoded[i]) << format->name << ", " << i << " of " << count;
        ASSERT_NEAR(decoded[i] + residual[i], from[i], format == &kOnebit ? 1e-7 : 0);
      }
    }
}

TEST(Codec, ErrorsAreBounded) {
  const auto from = values(kMostElements);
  const auto bf16 = coded({&kBf16}, from).residual, fp16 = coded({&kFp16}, from).residual;
  const auto int8 = coded({&kInt8}, from).residual;
  for (std::size_t i = 0; i < from.size(); ++i) {
    const std::size_t block = i / kScaleBlock * kScaleBlock;
    float most = 0;
    for (std::size_t j = block; j < block + kScaleBlock; ++j) most = std::max(most, std::abs(from[j]));
    EXPECT_LE(std::abs(bf16[i]), std::abs(from[i]) * 0x1p-8F);
    EXPECT_LE(std::abs(fp16[i]), std::max(std::abs(from[i]) * 0x1p-11F, 0x1p-25F));
    EXPECT_LE(std::abs(int8[i]), most / 127 * 0.501F);
  }
}

TEST(Codec, TakesTheBytesThatItPromises) {
  const auto bytes = [](const Format& format) { return Codec{&format, 0.01}.bytes(kMostElements); };
  EXPECT_EQ(bytes(kExact), 4096U);
  EXPECT_EQ(bytes(kBf16), 2048U);
  EXPECT_EQ(bytes(kFp16), 2048U);
  EXPECT_EQ(bytes(kInt8), 1040U);
  EXPECT_EQ(bytes(kTopk), 60U);
  EXPECT_EQ(bytes(kOnebit), 136U);
  for (const Format* format : kFormats) EXPECT_EQ((Codec{format}.bytes(0)), 0U);
}

TEST(Codec, TopKeepsTheLargestAndOfEqualOnesTheFirst) {
  std::vector<float> from{1, -3, 2, 3, -3, 0, 3, 0.5F};
  const auto [code, decoded, residual] = coded({&kTopk, 3.0 / 8}, from);
  EXPECT_EQ(decoded, (std::vector<float>{0, -3, 0, 3, -3, 0, 0, 0}));
  EXPECT_EQ(residual, (std::vector<float>{1, 0, 2, 0, 0, 0, 3, 0.5F}));
}

TEST(Codec, OneBitDecodesToTheMeans) {
  const auto result = coded({&kOnebit}, {1, -2, 3, -4, 0});
  EXPECT_EQ(result.decoded, (std::vector<float>{4.0F / 3, -3, 4.0F / 3, -3, 4.0F / 3}));
}

TEST(Codec, ValuesThatAreNotFiniteStaySo) {
  for (const Format* format : kFormats)
    for (const float bad : {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN()})
      for (const std::size_t place : {0, 300, 1000}) {
        auto from = values(1001);
        from[place] = bad;
        const auto decoded = coded({format}, from).decoded;
        EXPECT_FALSE(std::ranges::all_of(decoded, [](float value) { return std::isfinite(value); }))
            << format->name << ", " << bad;
      }
}

TEST(Codec, ExtremeValuesStayFinite) {
  constexpr float kMost = std::numeric_limits<float>::max(), kLeast = std::numeric_limits<float>::denorm_min();
  for (const Format* format : kFormats)
    for (const auto& from : {std::vector<float>{kMost, -kMost, 1, kLeast}, std::vector<float>{kLeast, -kLeast, 0, -0.F},
                             std::vector<float>(4, 0x1p-126F)}) {
      if (format == &kOnebit) continue;  // means may be far from their values
      const auto [code, decoded, residual] = coded({format}, from);
      for (std::size_t i = 0; i < from.size(); ++i) {
        EXPECT_TRUE(std::isfinite(decoded[i]) && std::isfinite(residual[i])) << format->name;
        EXPECT_EQ(residual[i], from[i] - decoded[i]);
      }
    }
}

/// The fastest loops of this processor against those of any.
TEST(Codec, AllProcessorsGiveTheSameBits) {
  const Loops &fast = loops(), &any = kBaseline;
  for (const std::size_t count : {1, 31, 100, 1000, 1024}) {
    const auto from = values(count);
    const auto expect_same = [&](const auto& encode, auto code_of_type, const char* what) {
      std::vector<decltype(code_of_type)> one(count + 8), other(count + 8);
      auto a = from, b = from;
      encode(fast, a.data(), one.data());
      encode(any, b.data(), other.data());
      EXPECT_EQ(one, other) << what;
      EXPECT_EQ(std::memcmp(a.data(), b.data(), count * sizeof(float)), 0) << what;
    };
    expect_same([&](const Loops& l, float* v, std::uint16_t* c) { l.to_bfloat16(v, c, count); }, std::uint16_t{},
                "bf16");
    expect_same([&](const Loops& l, float* v, std::uint16_t* c) { l.to_float16(v, c, count); }, std::uint16_t{},
                "fp16");
    expect_same(
        [&](const Loops& l, float* v, std::int8_t* c) {
          float scales[4];
          l.to_int8(v, scales, c, count);
        },
        std::int8_t{}, "int8");
    expect_same(
        [&](const Loops& l, float* v, std::uint32_t* c) {
          float means[2];
          l.to_signs(v, means, c, count);
        },
        std::uint32_t{}, "signs");
    EXPECT_EQ(fast.magnitude(from.data(), count, count / 2 + 1), any.magnitude(from.data(), count, count / 2 + 1));
    EXPECT_EQ(fast.dot(from.data(), from.data(), count), any.dot(from.data(), from.data(), count));
  }
}
}  // namespace
}  // namespace distdl::compression
