// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <gmock/gmock.h>

#include "tests/kernels/each_backend.hpp"
#include "tests/kernels/layer_run.hpp"
#include <distdl/kernels/elementwise/functors.hpp>

namespace distdl::kernels::test {
namespace {
class Elementwise : public EachBackend {
 protected:
  static constexpr std::size_t kCount = 1037;  // no multiple of any vector or block

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

TEST_P(Elementwise, SgdDoesWhatPyTorchDocuments) {
  for (SgdStep step : {SgdStep{0.1f, 0, 0, false}, SgdStep{0.1f, 0.9f, 0, false}, SgdStep{0.05f, 0.9f, 1e-2f, false},
                       SgdStep{0.05f, 0.9f, 1e-2f, true}}) {
    float *p = device(a_), *m = device(b_);
    backend_->sgd(step, p, m, device(c_), kCount);
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

TEST_P(Elementwise, SgdGivesTheSameBitsAsTheSharedFunctor) {
  elementwise::SgdUpdate update{{0.05f, 0.9f, 1e-2f, true}};
  float *p = device(a_), *m = device(b_);
  backend_->sgd(update.step, p, m, device(c_), kCount);
  Values parameters = a_, momentum = b_;
  for (std::size_t i = 0; i < kCount; ++i) update(parameters[i], momentum[i], c_[i]);
  EXPECT_EQ(host(p), parameters);
  EXPECT_EQ(host(m), momentum);
}

TEST_P(Elementwise, RunningAverageWeighsTheScaledObservation) {
  float* value = device(a_);
  backend_->running_average(value, device(b_), 0.1f, 0.25f, kCount);
  Values averaged = host(value);
  for (std::size_t i = 0; i < kCount; ++i) ASSERT_NEAR(averaged[i], 0.9 * a_[i] + 0.1 * 0.25 * b_[i], 1e-6) << i;
}

DISTDL_ON_EACH_BACKEND(Elementwise);
}  // namespace
}  // namespace distdl::kernels::test
