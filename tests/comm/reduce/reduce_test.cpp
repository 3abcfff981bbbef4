// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include <gmock/gmock.h>

#include <distdl/base/errors.hpp>
#include <distdl/comm/reduce/reduce.hpp>
#include <distdl/comm/reduce/reduce_kernels.hpp>

namespace distdl::comm {
namespace {

using Bytes = std::vector<std::byte>;

// The oracle: one element at a time, with other means than the library's.

template <class T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

template <class T>
void store(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

float bfloat16_value(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

/// The nearest of the two neighbours, by their distances.
std::uint16_t to_bfloat16(float value) {
  const auto below = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16);
  if (std::isnan(value)) return below | 0x40;
  if (std::isinf(value)) return below;
  const auto above = static_cast<std::uint16_t>(below + 1);
  const double low = bfloat16_value(below);
  double high = bfloat16_value(above);
  if (std::isinf(high)) high = std::copysign(0x1p128, low);
  const double to_low = std::fabs(value - low), to_high = std::fabs(high - value);
  return to_low < to_high || (to_low == to_high && below % 2 == 0) ? below : above;
}

/// A number of binary16 (IEEE 754-2008, 3.6) that is computed with in float64, which holds every sum of two exactly.
struct Half {
  std::uint16_t bits = 0;

  Half() = default;
  explicit(false) Half(double value) {
    const auto sign = static_cast<std::uint16_t>(std::signbit(value) ? 0x8000 : 0);
    const double size = std::fabs(value);
    if (std::isnan(value)) {
      bits = 0x7e00;
    } else if (size >= 65520) {  // half a step above the largest
      bits = sign | 0x7c00;
    } else {
      const int exponent = size < 0x1p-14 ? -14 : std::ilogb(size);
      const double steps =
          std::nearbyint(std::ldexp(size, 10 - exponent));  // to even; at most 2^11, which is 1 of the next exponent
      bits = static_cast<std::uint16_t>(sign + (exponent + 14) * 1024 + static_cast<int>(steps));
    }
  }
  explicit(false) operator double() const {
    const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
    double size = std::ldexp(exponent == 0 ? mantissa : 1024 + mantissa, std::max(exponent, 1) - 25);
    if (exponent == 31)
      size = mantissa == 0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
    return (bits & 0x8000) != 0 ? -size : size;
  }
};

struct Oracle {
  DataType type;
  Reduction reduction;

  template <class T>
  T pick(T a, T b) const {
    if (std::isnan(static_cast<double>(a))) return a;
    if (std::isnan(static_cast<double>(b))) return b;
    const bool left_is_less = a < b || (a == b && std::signbit(static_cast<double>(a)));
    return (reduction == Reduction::minimum) == left_is_less ? a : b;
  }

  template <class T>
  T floating(T a, T b) const {
    if (reduction == Reduction::maximum || reduction == Reduction::minimum) return pick(a, b);
    return a + b;
  }

  template <class T>
  T integer(T a, T b) const {
    if (reduction == Reduction::maximum) return std::max(a, b);
    if (reduction == Reduction::minimum) return std::min(a, b);
    T sum;
    static_cast<void>(__builtin_add_overflow(a, b, &sum));
    return sum;
  }

  void reduce_into(std::byte* a, const std::byte* b) const {
    switch (type) {
      case DataType::float32:
        return store(a, floating(load<float>(a), load<float>(b)));
      case DataType::float64:
        return store(a, floating(load<double>(a), load<double>(b)));
      case DataType::float16:
        return store(a, floating(load<Half>(a), load<Half>(b)));
      case DataType::bfloat16: {
        const float x = bfloat16_value(load<std::uint16_t>(a)), y = bfloat16_value(load<std::uint16_t>(b));
        if (reduction == Reduction::sum || reduction == Reduction::average) return store(a, to_bfloat16(x + y));
        const bool left = std::bit_cast<std::uint32_t>(pick(x, y)) == std::bit_cast<std::uint32_t>(x);
        return left ? void() : store(a, load<std::uint16_t>(b));
      }
      case DataType::int32:
        return store(a, integer(load<std::int32_t>(a), load<std::int32_t>(b)));
      default:
        return store(a, integer(load<std::int64_t>(a), load<std::int64_t>(b)));
    }
  }

  void scale(std::byte* a, double by) const {
    switch (type) {
      case DataType::float32:
        return store(a, static_cast<float>(load<float>(a) * by));
      case DataType::float64:
        return store(a, load<double>(a) * by);
      case DataType::float16:
        return store(a, Half(static_cast<float>(load<Half>(a)) * static_cast<float>(by)));
      default:
        return store(a, to_bfloat16(bfloat16_value(load<std::uint16_t>(a)) * static_cast<float>(by)));
    }
  }

  Bytes reduce(const std::vector<Bytes>& sources, const std::vector<int>& reductions, double by) const {
    std::vector<Bytes> partial;
    for (std::size_t s = 0; s < sources.size(); ++s) {
      partial.push_back(sources[s]);
      for (int m = 0; m < reductions[s]; ++m) {
        const Bytes right = std::move(partial.back());
        partial.pop_back();
        for (std::size_t i = 0; i < right.size(); i += size_of(type)) reduce_into(&partial.back()[i], &right[i]);
      }
    }
    if (by != 1)
      for (std::size_t i = 0; i < partial[0].size(); i += size_of(type)) scale(&partial[0][i], by);
    return partial.at(0);
  }
};

/// Which of several NaNs a sum gives is not promised.
void expect_same(DataType type, const std::byte* actual, const Bytes& expected, Reduction reduction) {
  const bool sums = reduction == Reduction::sum || reduction == Reduction::average;
  for (std::size_t i = 0; i < expected.size(); i += size_of(type)) {
    if (std::memcmp(actual + i, &expected[i], size_of(type)) == 0) continue;
    const auto is_nan = [&](const std::byte* at) {
      if (type == DataType::float32) return std::isnan(load<float>(at));
      if (type == DataType::float64) return std::isnan(load<double>(at));
      if (type == DataType::float16) return std::isnan(static_cast<double>(load<Half>(at)));
      return type == DataType::bfloat16 && std::isnan(bfloat16_value(load<std::uint16_t>(at)));
    };
    ASSERT_TRUE(sums && is_nan(actual + i) && is_nan(&expected[i]))
        << name_of(type) << ' ' << name_of(reduction) << ": element " << i / size_of(type) << " of "
        << expected.size() / size_of(type);
  }
}

/// Any bits at all: also infinities, NaNs, subnormals. Half of them near each other, so that sums are rounded.
Bytes random_values(DataType type, std::size_t count, std::mt19937& random) {
  std::vector<std::uint32_t> words(count * size_of(type) / 4 + 1);
  for (std::uint32_t& word : words) word = static_cast<std::uint32_t>(random());
  Bytes bytes(count * size_of(type));
  std::memcpy(bytes.data(), words.data(), bytes.size());
  if (!is_floating(type)) return bytes;
  for (std::size_t i = 0; i < count; i += 2) {
    const float value = static_cast<float>(static_cast<int>(random() % 2001) - 1000) / 64;
    std::byte* at = &bytes[i * size_of(type)];
    if (type == DataType::float32) store(at, value * 1.1F);
    if (type == DataType::float64) store(at, value * 1.1);
    if (type == DataType::float16) store(at, Half(value));
    if (type == DataType::bfloat16) store(at, to_bfloat16(value));
  }
  return bytes;
}

struct Pair {
  DataType type;
  Reduction reduction;
};

std::vector<Pair> all_pairs() {
  std::vector<Pair> all;
  for (auto type :
       {DataType::float32, DataType::float64, DataType::float16, DataType::bfloat16, DataType::int32, DataType::int64})
    for (auto reduction : {Reduction::sum, Reduction::maximum, Reduction::minimum, Reduction::average})
      if (reduction != Reduction::average || is_floating(type)) all.push_back({type, reduction});
  return all;
}

class Reduce : public testing::TestWithParam<Pair> {};

enum class Place { apart, first_source, all_sources };

struct Case {
  std::vector<int> reductions;
  std::size_t targets;
  std::size_t count;
  std::size_t misaligned;
  Place place;
};

void expect_right(Pair pair, const Case& c, std::mt19937& random) {
  const std::size_t bytes = c.count * size_of(pair.type);
  std::vector<Bytes> values, rooms;
  std::vector<ReduceSource> sources;
  std::vector<void*> targets;
  for (int reductions : c.reductions) {
    values.push_back(random_values(pair.type, c.count, random));
    Bytes& room = rooms.emplace_back(bytes + 2 * c.misaligned + 1, std::byte{0x5A});
    std::copy(values.back().begin(), values.back().end(), room.begin() + static_cast<std::ptrdiff_t>(c.misaligned));
    sources.push_back({room.data() + c.misaligned, reductions});
  }
  const std::size_t in_place = c.place == Place::apart ? 0 : c.place == Place::first_source ? 1 : sources.size();
  for (std::size_t t = 0; t < c.targets; ++t) {
    if (t < std::min(in_place, rooms.size())) {
      targets.push_back(const_cast<void*>(sources[t].data));
    } else {
      rooms.emplace_back(bytes + 2 * c.misaligned + 1, std::byte{0x5A});
      targets.push_back(rooms.back().data() + c.misaligned);
    }
  }
  const double scale = pair.reduction == Reduction::average ? 1.0 / 3 : 1;
  reduce(pair.type, pair.reduction, sources, targets, c.count, scale);
  const Bytes expected = Oracle{pair.type, pair.reduction}.reduce(values, c.reductions, scale);
  for (void* target : targets) expect_same(pair.type, static_cast<const std::byte*>(target), expected, pair.reduction);
  for (const Bytes& room : rooms) {
    const auto guards = [&](std::size_t first, std::size_t count) { return std::span(room).subspan(first, count); };
    for (auto guard : {guards(0, c.misaligned), guards(c.misaligned + bytes, c.misaligned + 1)})
      for (std::byte byte : guard) ASSERT_EQ(byte, std::byte{0x5A}) << "beyond the ends";
  }
}

const std::vector<std::vector<int>> kOrders{
    {0},                       // a copy
    {0, 1},                    // a + b
    {0, 1, 1},                 // (a + b) + c
    {0, 0, 2},                 // a + (b + c)
    {0, 1, 0, 2},              // (a + b) + (c + d)
    {0, 1, 0, 1, 1},           // ((a + b) + (c + d)... left to right in pairs
    {0, 0, 0, 0, 0, 0, 0, 7},  // from the right
    {0, 1, 0, 2, 0, 1, 0, 3},  // the tree over 8
};

TEST_P(Reduce, EqualsThePlainLoopForAllOrders) {
  std::mt19937 random(1);
  for (std::vector<int> reductions : kOrders) {
    int open = 0;  // the orders above may leave something to reduce
    for (int m : reductions) open += 1 - m;
    reductions.back() += open - 1;
    for (std::size_t targets : {1, 2, 3, 4})
      for (std::size_t count : {1, 2, 7, 333})
        for (auto place : {Place::apart, Place::first_source, Place::all_sources})
          expect_right(GetParam(), {reductions, targets, count, 0, place}, random);
  }
}

TEST_P(Reduce, EqualsThePlainLoopAroundEveryVectorAndBlock) {
  std::mt19937 random(2);
  std::vector<std::size_t> counts;
  for (std::size_t i = 1; i <= 70; ++i) counts.push_back(i);
  for (std::size_t block = 128; block <= 8192; block *= 2)
    for (std::size_t off : {-1, 0, 1}) counts.push_back(block / size_of(GetParam().type) * 2 + off);
  for (std::size_t count : counts)
    for (const std::vector<int>& reductions : {std::vector{0}, {0, 1}, {0, 1, 0, 2}})
      expect_right(GetParam(), {reductions, 2, count, count % 3, Place::first_source}, random);
}

TEST_P(Reduce, NeedsNoAlignment) {
  std::mt19937 random(3);
  for (std::size_t off = 1; off < 9; ++off)
    for (const std::vector<int>& reductions : {std::vector{0}, {0, 1}, {0, 1, 0, 2}})
      expect_right(GetParam(), {reductions, 2, 1000 + off, off, Place::apart}, random);
}

TEST(ReduceLarge, IsRightPastTheCaches) {
  std::mt19937 random(5);
  const std::size_t count = (4 << 20) / sizeof(float) + 5;
  const Pair sum{DataType::float32, Reduction::sum}, average{DataType::float32, Reduction::average};
  expect_right(sum, {{0}, 1, count, 3, Place::apart}, random);
  expect_right(sum, {{0}, 2, count, 0, Place::first_source}, random);
  expect_right(average, {{0}, 1, count, 0, Place::apart}, random);
  expect_right(sum, {{0, 1}, 2, count, 60, Place::apart}, random);
  expect_right(average, {{0, 1, 1}, 3, count, 0, Place::apart}, random);
}

INSTANTIATE_TEST_SUITE_P(Types, Reduce, testing::ValuesIn(all_pairs()), [](const auto& pair) {
  return fmt::format("{}_{}", name_of(pair.param.type), name_of(pair.param.reduction));
});

TEST(ReduceOrder, ShowsInTheBits) {
  const float a = 1e8F, b = -1e8F, c = 1;
  float result = 0;
  void* const target = &result;
  reduce(DataType::float32, Reduction::sum, std::vector<ReduceSource>{{&a, 0}, {&b, 1}, {&c, 1}}, {&target, 1}, 1);
  EXPECT_EQ(result, 1);
  reduce(DataType::float32, Reduction::sum, std::vector<ReduceSource>{{&a, 0}, {&b, 0}, {&c, 2}}, {&target, 1}, 1);
  EXPECT_EQ(result, 0);
}

TEST(ReduceValues, AverageOfFloatsIsTheQuotientRoundedOnce) {
  std::mt19937 random(4);
  std::vector<float> values(10000), result(values.size());
  for (float& value : values) value = static_cast<float>(random()) / 1000;
  void* const target = result.data();
  const ReduceSource source{values.data(), 0};
  reduce(DataType::float32, Reduction::average, {&source, 1}, {&target, 1}, values.size(), 1.0 / 3);
  for (std::size_t i = 0; i < values.size(); ++i) ASSERT_EQ(result[i], values[i] / 3);
}

TEST(ReduceValues, IntegersWrapAround) {
  const std::int32_t most = std::numeric_limits<std::int32_t>::max(), one = 1;
  std::int32_t result = 0;
  void* const target = &result;
  reduce(DataType::int32, Reduction::sum, std::vector<ReduceSource>{{&most, 0}, {&one, 1}}, {&target, 1}, 1);
  EXPECT_EQ(result, std::numeric_limits<std::int32_t>::min());
}

TEST(ReduceValues, NaNWinsOverEverything) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
  for (auto reduction : {Reduction::maximum, Reduction::minimum, Reduction::sum})
    for (auto [a, b] : {std::pair{nan, infinity}, {infinity, nan}, {nan, -infinity}, {-infinity, nan}}) {
      float result = 0;
      void* const target = &result;
      reduce(DataType::float32, reduction, std::vector<ReduceSource>{{&a, 0}, {&b, 1}}, {&target, 1}, 1);
      EXPECT_TRUE(std::isnan(result)) << name_of(reduction);
    }
}

TEST(ReduceValues, MinusZeroIsLessThanPlusZero) {
  const float minus = -0.0F, plus = 0;
  for (auto reduction : {Reduction::maximum, Reduction::minimum})
    for (auto [a, b] : {std::pair{minus, plus}, {plus, minus}}) {
      float result = 1;
      void* const target = &result;
      reduce(DataType::float32, reduction, std::vector<ReduceSource>{{&a, 0}, {&b, 1}}, {&target, 1}, 1);
      EXPECT_EQ(std::signbit(result), reduction == Reduction::minimum);
    }
}

TEST(ReduceOrder, RefusesMorePartialResultsThanItHasRoomFor) {
  const std::vector<float> values(65, 1);
  std::vector<ReduceSource> sources;
  for (const float& value : values) sources.push_back({&value, 0});
  sources.back().reductions = 64;
  float result = 0;
  void* const target = &result;
  EXPECT_THROW(reduce(DataType::float32, Reduction::sum, sources, {&target, 1}, 1), InternalError);
  sources.erase(sources.begin());
  sources.back().reductions = 63;
  reduce(DataType::float32, Reduction::sum, sources, {&target, 1}, 1);
  EXPECT_EQ(result, 64);
}

/// Every pair of a half with each of a few others, on all kinds of processors that this one can stand for.
TEST(ReduceKernels, AgreeForAllHalves) {
  std::vector<std::uint16_t> all(65536);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
  const ReduceKernels& best = reduce_kernels();
  for (auto type : {DataType::float16, DataType::bfloat16})
    for (int other : {0x0000, 0x8000, 0x0001, 0x03FF, 0x0400, 0x3C00, 0x3F81, 0x7BFF, 0x7F7F, 0x7C00, 0xFF80}) {
      if ((other & 0x7FFF) > (type == DataType::float16 ? 0x7C00 : 0x7F80)) continue;  // of two NaNs, either may win
      const std::vector<std::uint16_t> others(all.size(), static_cast<std::uint16_t>(other));
      std::vector<std::uint16_t> fast(all.size()), plain(all.size());
      const auto t = static_cast<std::size_t>(type);
      for (auto [kernel, baseline] : {std::pair{best.reduce[t][0], kReduceBaseline.reduce[t][0]},
                                      {best.reduce[t][1], kReduceBaseline.reduce[t][1]},
                                      {best.reduce[t][2], kReduceBaseline.reduce[t][2]},
                                      {best.scaled_sum[t], kReduceBaseline.scaled_sum[t]}}) {
        kernel(fast.data(), nullptr, all.data(), others.data(), all.size(), 1.0 / 3);
        baseline(plain.data(), nullptr, all.data(), others.data(), all.size(), 1.0 / 3);
        ASSERT_EQ(fast, plain) << name_of(type) << " with " << other;
      }
      best.reduce[t][0](fast.data(), nullptr, all.data(), others.data(), all.size(), 1);
      for (std::size_t i = 0; i < all.size(); ++i) {
        Bytes a(8);
        store(a.data(), all[i]);
        Oracle{type, Reduction::sum}.reduce_into(a.data(), reinterpret_cast<const std::byte*>(&others[i]));
        ASSERT_NO_FATAL_FAILURE(
            expect_same(type, reinterpret_cast<const std::byte*>(&fast[i]), {a[0], a[1]}, Reduction::sum));
      }
    }
}

TEST(Element, NamesAreReadAsWritten) {
  for (auto [type, reduction] : all_pairs()) {
    EXPECT_EQ(data_type_of(name_of(type)), type);
    EXPECT_NO_THROW(check_reduction(type, reduction));
  }
  EXPECT_THROW(data_type_of("float"), ConfigError);
  EXPECT_THROW(check_reduction(DataType::int32, Reduction::average), ConfigError);
  EXPECT_THROW(check_reduction(DataType::byte, Reduction::sum), ConfigError);
}

}  // namespace
}  // namespace distdl::comm
