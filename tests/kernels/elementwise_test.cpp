// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cmath>
#include <limits>

#include <gmock/gmock.h>

#include "tests/kernels/each_backend.hpp"
#include "tests/kernels/layer_run.hpp"
#include <distdl/kernels/elementwise/functors.hpp>
#include <distdl/kernels/elementwise/ordered_sum.hpp>

namespace distdl::kernels::test {
namespace {
class Elementwise : public EachBackend {
 protected:
  static constexpr std::size_t kCount = 1037;  // no multiple of any vector or block
  static constexpr std::array kAll{ArenaRange{0, kCount}};

  float* device(const Values& values) {
    buffers_.push_back(backend_->allocate(values.size() * sizeof(float)));
    backend_->copy_from_host(buffers_.back().data(), values.data(), values.size() * sizeof(float));
    return buffers_.back().as<float>().data();
  }
  Values host(const float* data, std::size_t count = kCount) {
    Values values(count);
    backend_->copy_to_host(values.data(), data, count * sizeof(float));
    return values;
  }

  template <class Step>
  const Step* device(const Step& step) {
    buffers_.push_back(backend_->allocate(sizeof step));
    backend_->copy_from_host(buffers_.back().data(), &step, sizeof step);
    return static_cast<const Step*>(buffers_.back().data());
  }

  double* device_sum() {
    buffers_.push_back(backend_->allocate(sizeof(double)));
    return static_cast<double*>(buffers_.back().data());
  }
  /// The step in parts, as ranks make it that have some elements of a tensor each.
  template <class Step>
  void update_in_parts(const Step& step, const UpdateArenas& arenas, ArenaRanges ranges) {
    double *square = device_sum(), *term = device_sum();
    backend_->update(device(TermsOf<Step>{step}), arenas, ranges);
    for (const ArenaRange& range : ranges) {
      KnownRate<Step> known{step_of_group(step, range.options)};
      backend_->sums_of_squares(arenas.parameters, std::span(&range, 1), square);
      backend_->sums_of_terms(device(step), arenas, std::span(&range, 1), term);
      if (range.options.adapts) known.step.learning_rate = known.step.trusted_rate(host(square), host(term));
      backend_->update(device(known), arenas, std::span(&range, 1));
    }
  }

  double host(const double* sum) {
    double value = 0;
    backend_->copy_to_host(&value, sum, sizeof value);
    return value;
  }
  static double sum_over_lanes(const std::vector<double>& terms) {
    std::vector<double> lanes(256);
    for (std::size_t lane = 0; lane < 256; ++lane)
      for (std::size_t i = lane; i < terms.size(); i += 256) lanes[lane] += terms[i];
    for (std::size_t half = 128; half > 0; half /= 2)
      for (std::size_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
    return lanes[0];
  }

  std::vector<tensor::Buffer> buffers_;
  Values a_ = random_values(kCount, 1), b_ = random_values(kCount, 2), c_ = random_values(kCount, 3);
};

TEST_P(Elementwise, MemoryStartsAsZero) {
  auto buffer = backend_->allocate(4096);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % 64, 0u);
  EXPECT_EQ(host(buffer.as<float>().data(), 1024), Values(1024));
  auto staging = backend_->allocate_staging(256);
  EXPECT_EQ(staging.as<float>()[63], 0.0f);
}

TEST_P(Elementwise, FillAndCopyTouchOnlyTheirRange) {
  float* data = device(a_);
  backend_->fill(data + 1, kCount - 2, 2.5f);
  Values filled = host(data);
  EXPECT_EQ(filled.front(), a_.front());
  EXPECT_EQ(filled.back(), a_.back());
  EXPECT_THAT(Values(filled.begin() + 1, filled.end() - 1), testing::Each(2.5f));
  float* to = device(b_);
  backend_->copy(to + 1, data, kCount - 2);
  Values copied = host(to);
  EXPECT_EQ(copied.front(), b_.front());
  EXPECT_EQ(copied[1], a_[0]);
  EXPECT_EQ(copied.back(), b_.back());
}

// Addition must be the same everywhere: the sum over microbatches goes through it on every rank.
TEST_P(Elementwise, AddGivesTheSameBitsAsPlainAddition) {
  float* sum = device(a_);
  backend_->add(sum, device(b_), kCount);
  Values expected(kCount);
  for (std::size_t i = 0; i < kCount; ++i) expected[i] = a_[i] + b_[i];
  EXPECT_EQ(host(sum), expected);
}

TEST_P(Elementwise, SumsFollowTheTree) {
  const Values d = random_values(kCount, 4), e = random_values(kCount, 5);
  const std::vector<const Values*> all{&a_, &b_, &c_, &d, &e};
  const auto sum_of = [&](std::size_t addends) {
    std::vector<void*> memory;
    for (std::size_t i = 0; i < addends; ++i) memory.push_back(device(*all[i]));
    backend_->sum(dense({kCount}), memory);
    return host(static_cast<const float*>(memory[0]));
  };
  Values two(kCount), three(kCount), five(kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    two[i] = a_[i] + b_[i];
    three[i] = two[i] + c_[i];
    five[i] = (two[i] + (c_[i] + d[i])) + e[i];
  }
  EXPECT_EQ(sum_of(1), a_);
  EXPECT_EQ(sum_of(2), two);
  EXPECT_EQ(sum_of(3), three);
  EXPECT_EQ(sum_of(5), five);
}

TEST_P(Elementwise, SgdDoesWhatPyTorchDocuments) {
  for (SgdStep step : {SgdStep{0.1f, 0, 0, false}, SgdStep{0.1f, 0.9f, 0, false}, SgdStep{0.05f, 0.9f, 1e-2f, false},
                       SgdStep{0.05f, 0.9f, 1e-2f, true}}) {
    float *p = device(a_), *m = device(b_);
    backend_->update(device(step), {p, {m}, device(c_)}, kAll);
    Values parameters = host(p), momentum = host(m);
    for (std::size_t i = 0; i < kCount; ++i) {
      double g = c_[i] + double{step.weight_decay} * a_[i];
      double mm = double{step.momentum} * b_[i] + g;
      double pp = a_[i] - step.learning_rate * (step.nesterov ? g + step.momentum * mm : mm);
      ASSERT_NEAR(momentum[i], mm, 1e-6) << i;
      ASSERT_NEAR(parameters[i], pp, 1e-6) << i;
    }
  }
}

TEST_P(Elementwise, SgdGivesTheSameBitsAsTheSharedStep) {
  const SgdStep step{0.05f, 0.9f, 1e-2f, true};
  float *p = device(a_), *m = device(b_);
  backend_->update(device(step), {p, {m}, device(c_)}, kAll);
  Values parameters = a_, momentum = b_;
  for (std::size_t i = 0; i < kCount; ++i) step(parameters[i], momentum[i], c_[i]);
  EXPECT_EQ(host(p), parameters);
  EXPECT_EQ(host(m), momentum);
}

/// Ranges with gaps between them, an empty one, and one of each GroupOptions.
constexpr std::array kSome{ArenaRange{3, 500, {true, true}}, ArenaRange{510, 0}, ArenaRange{510, 100, {false, false}},
                           ArenaRange{610, 40}, ArenaRange{700, 300, {true, true}}};

TEST_P(Elementwise, OptimizersApplyTheOptionsOfEachRange) {
  const SgdStep sgd{0.05f, 0.9f, 1e-2f, true, 0.5f};
  const LarsStep lars{0.05, 0.9f, 1e-2, 0.5f, 0.02};
  const AdamWStep adamw{{0.05, 0.9f, 0.1f, 0.99f, 0.01f, 1.2f, 3.4f, 1e-6f, 0.1f, 0.5f}};
  const LambStep lamb{adamw};
  const AverageStep average{0.1f, 0.25f};
  const Values positive = [&] {
    Values values = random_values(kCount, 4);
    for (float& value : values) value *= value;
    return values;
  }();
  float *p = device(a_), *m = device(b_), *v = device(positive), *g = device(c_);
  backend_->update(device(sgd), {p, {m}, g}, kSome);
  backend_->update(device(lars), {p, {m}, g}, kSome);
  backend_->update(device(adamw), {p, {m, v}, g}, kSome);
  backend_->update(device(lamb), {p, {m, v}, g}, kSome);
  backend_->update(device(average), {p, {}, g}, kSome);
  Values parameters = a_, first = b_, second = positive;
  for (const ArenaRange& range : kSome) {
    const std::size_t offset = range.offset, count = range.count;
    const GroupOptions& options = range.options;
    const auto each = [offset, count](const auto& visit) {
      for (std::size_t i = offset; i < offset + count; ++i) visit(i);
    };
    const auto squares = [&, offset, count](const Values& values) {
      return elementwise::ordered_sum(count, [&](std::size_t i) { return elementwise::Square{}(values[offset + i]); });
    };
    LarsStep by_lars = step_of_group(lars, options);
    LambStep by_lamb = step_of_group(lamb, options);
    each([&](std::size_t i) { step_of_group(sgd, options)(parameters[i], first[i], c_[i]); });
    if (options.adapts) by_lars.learning_rate = by_lars.trusted_rate(squares(parameters), squares(c_));
    each([&](std::size_t i) {
      by_lars(parameters[i], first[i], c_[i]);
      step_of_group(adamw, options)(parameters[i], first[i], second[i], c_[i]);
    });
    const double length = squares(parameters);
    const double direction = elementwise::ordered_sum(count, [&, offset](std::size_t i) {
      return by_lamb.term(parameters[offset + i], first[offset + i], second[offset + i], c_[offset + i]);
    });
    if (options.adapts) by_lamb.learning_rate = by_lamb.trusted_rate(length, direction);
    each([&](std::size_t i) {
      by_lamb(parameters[i], first[i], second[i], c_[i]);
      average(parameters[i], c_[i]);
    });
  }
  EXPECT_EQ(host(p), parameters);
  EXPECT_EQ(host(m), first);
  EXPECT_EQ(host(v), second);
}

TEST_P(Elementwise, AnAdaptiveStepInPartsGivesTheSameBits) {
  const auto expect_same_bits = [this](const auto& step) {
    Values squares = b_;
    for (float& value : squares) value *= value;
    const auto outcome = [&](bool in_parts) {
      const UpdateArenas arenas{device(a_), {device(b_), device(squares)}, device(c_)};
      if (in_parts)
        update_in_parts(step, arenas, kSome);
      else
        backend_->update(device(step), arenas, kSome);
      return std::array{host(arenas.parameters), host(arenas.moments[0]), host(arenas.moments[1])};
    };
    EXPECT_EQ(outcome(true), outcome(false));
  };
  expect_same_bits(LarsStep{0.05, 0.9f, 1e-2, 0.5f, 0.02});
  expect_same_bits(LambStep{{0.05, 0.9f, 0.1f, 0.99f, 0.01f, 1.2f, 3.4f, 1e-6f, 0.1f, 0.5f}});
}

TEST_P(Elementwise, ATrustRatioIsOneWhereANormIsZero) {
  const LarsStep lars{.learning_rate = 0.5};
  const LambStep lamb{{.learning_rate = 0.5}};
  for (double square : {0.0, 4.0}) {
    EXPECT_EQ(lars.trusted_rate(square, 4 - square), 0.5);
    EXPECT_EQ(lamb.trusted_rate(square, 4 - square), 0.5);
  }
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(std::isnan(lars.trusted_rate(4.0, nan)));
  EXPECT_TRUE(std::isnan(lamb.trusted_rate(4.0, nan)));
}

TEST_P(Elementwise, SquaresAreSummedInTheDocumentedOrder) {
  double* sum = device_sum();
  for (std::size_t count : {0u, 1u, 255u, 1037u, 16384u, 16385u, 300u * 16384u + 77u}) {
    const Values values = random_values(static_cast<std::int64_t>(count), 7);
    backend_->sums_of_squares(device(values), std::array{ArenaRange{0, count}}, sum);
    // ordered_sum.hpp, word by word.
    std::vector<double> parts;
    for (std::size_t first = 0; first < count; first += 16384) {
      std::vector<double> squares;
      for (std::size_t i = first; i < std::min(count, first + 16384); ++i)
        squares.push_back(double{values[i]} * double{values[i]});
      parts.push_back(sum_over_lanes(squares));
    }
    EXPECT_EQ(host(sum), sum_over_lanes(parts)) << count;
  }
}

TEST_P(Elementwise, RunningAverageWeighsTheScaledObservation) {
  float* value = device(a_);
  backend_->update(device(AverageStep{0.1f, 0.25f}), {value, {}, device(b_)}, kAll);
  Values averaged = host(value);
  for (std::size_t i = 0; i < kCount; ++i) ASSERT_NEAR(averaged[i], 0.9 * a_[i] + 0.1 * 0.25 * b_[i], 1e-6) << i;
}

DISTDL_ON_EACH_BACKEND(Elementwise);
}  // namespace
}  // namespace distdl::kernels::test
