// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cmath>

#include <gmock/gmock.h>

#include "tests/kernels/each_backend.hpp"
#include "tests/kernels/layer_run.hpp"
#include <distdl/base/errors.hpp>

namespace distdl::kernels::test {
namespace {
using testing::ElementsAre;
using testing::FloatNear;
using testing::Pointwise;

class SoftmaxLoss : public EachBackend {
 protected:
  struct Result {
    std::array<float, 2> totals;
    Values gradient;
  };

  Result run(const tensor::Shape& shape, const Values& logits, const std::vector<std::int32_t>& labels, float scale,
             bool want_gradient = true) {
    auto loss = backend_->softmax_cross_entropy(dense(shape));
    std::size_t bytes = logits.size() * sizeof(float);
    auto x = backend_->allocate(bytes), dx = backend_->allocate(bytes), totals = backend_->allocate(2 * sizeof(float)),
         y = backend_->allocate(labels.size() * sizeof(std::int32_t));
    backend_->copy_from_host(x.data(), logits.data(), bytes);
    backend_->copy_from_host(y.data(), labels.data(), labels.size() * sizeof(std::int32_t));
    loss->forward_backward(x.as<float>().data(), y.as<std::int32_t>().data(), scale,
                           want_gradient ? dx.as<float>().data() : nullptr, totals.as<float>().data());
    Result result{{}, Values(logits.size())};
    backend_->copy_to_host(result.totals.data(), totals.data(), 2 * sizeof(float));
    backend_->copy_to_host(result.gradient.data(), dx.data(), bytes);
    return result;
  }
};

TEST_P(SoftmaxLoss, OfEqualLogitsIsLogOfTheClasses) {
  auto result = run({2, 4}, Values(8, 3.0f), {0, 1}, 0.5f);
  EXPECT_NEAR(result.totals[0], 2 * std::log(4.0), 1e-6);
  EXPECT_EQ(result.totals[1], 1);  // the first of equal logits counts as the answer
  EXPECT_THAT(result.gradient, Pointwise(FloatNear(1e-7f), Values{-0.375f, 0.125f, 0.125f, 0.125f,  //
                                                                  0.125f, -0.375f, 0.125f, 0.125f}));
}

TEST_P(SoftmaxLoss, StaysFiniteForLargeLogits) {
  auto result = run({2, 3}, {1e4f, -1e4f, 0, -3e4f, 0, 3e4f}, {0, 1}, 1);
  EXPECT_FLOAT_EQ(result.totals[0], 3e4f);
  EXPECT_EQ(result.totals[1], 1);
  EXPECT_THAT(result.gradient, ElementsAre(0, 0, 0, 0, -1, 1));
}

TEST_P(SoftmaxLoss, GradientAgreesWithFiniteDifferences) {
  Values logits = random_values(5 * 7, 1);
  std::vector<std::int32_t> labels{0, 6, 3, 3, 1};
  Values gradient = run({5, 7}, logits, labels, 1).gradient;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    Values up = logits, down = logits;
    up[i] += 0.01f, down[i] -= 0.01f;
    // The loss of one sample at a time: a sum over all has too few digits left.
    std::int64_t sample = static_cast<std::int64_t>(i) / 7;
    auto one = [&](const Values& all) {
      Values row(all.begin() + sample * 7, all.begin() + sample * 7 + 7);
      return double{run({1, 7}, row, {labels[sample]}, 1).totals[0]};
    };
    EXPECT_NEAR(gradient[i], (one(up) - one(down)) / 0.02, 2e-4) << i;
  }
}

TEST_P(SoftmaxLoss, WritesNoGradientWhereNoneIsWanted) {
  auto result = run({1, 2}, {1, 2}, {1}, 1, false);
  EXPECT_NEAR(result.totals[0], std::log(1 + std::exp(-1.0)), 1e-6);
  EXPECT_THAT(result.gradient, ElementsAre(0, 0));
}

DISTDL_ON_EACH_BACKEND(SoftmaxLoss);
}  // namespace
}  // namespace distdl::kernels::test
