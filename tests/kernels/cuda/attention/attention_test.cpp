// SPDX-License-Identifier: Apache-2.0
// Attention by the bodies and products of its CUDA kernels, on the CPU, against the backend "reference". Needs no CUDA.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/kernels/cuda/on_cpu.hpp"
#include "tests/kernels/cuda/reference_layer.hpp"
#include <distdl/kernels/cuda/attention/attention.hpp>

namespace distdl::kernels::cuda::test {
namespace {
using testing::FloatNear;
using testing::Pointwise;

struct Heads {
  explicit Heads(const AttentionExtents& of) : queries(of.queries()), keys(of.keys()), values(of.keys()) {}
  SplitHeads split() { return {queries.data(), keys.data(), values.data()}; }
  Values queries, keys, values;
};

/// The layer's steps, `at_once` groups at a time.
class OnCpu {
 public:
  OnCpu(const Attention& spec, const AttentionExtents& of, std::int64_t at_once)
      : of_(of),
        at_once_(at_once),
        scale_(1 / std::sqrt(static_cast<float>(of.width))),
        cosines_(of.places * (of.width / 2)),
        sines_(cosines_.size()),
        heads_(of),
        gradients_(of),
        outputs_(of.queries()),
        probabilities_(at_once * of.scores()),
        dscores_(probabilities_.size()) {
    if (spec.rotary_base <= 0) return;
    angles_ = {cosines_.data(), sines_.data()};
    for_each(cosines_.size(), FillAngles{angles_, spec.rotary_base, of.width});
  }

  Values forward(const Values& x) {
    Values y(outputs_.size());
    for_each_row(of_.all_heads(), TakeHeads{of_, x.data(), heads_.split(), angles_});
    for_each_pass([&](std::int64_t count, std::int64_t query, std::int64_t key) {
      compute_probabilities(count, query, key);
      multiply(of_.mix(), count, 1, &heads_.values[key], probabilities_.data(), &outputs_[query]);
    });
    for_each_row(of_.y_heads(), JoinHeads{of_, outputs_.data(), y.data()});
    return y;
  }

  Values backward(const Values& x, const Values& dy) {
    Values dx(x.size(), 99.0f);
    for_each_row(of_.all_heads(), TakeHeads{of_, x.data(), heads_.split(), angles_});
    for_each_row(of_.y_heads(), SplitOutput{of_, dy.data(), outputs_.data()});
    for_each_pass([&](std::int64_t count, std::int64_t query, std::int64_t key) {
      compute_probabilities(count, query, key);
      multiply(of_.collect(), count, 1, &outputs_[query], probabilities_.data(), &gradients_.values[key]);
      multiply(of_.compare(), count, 1, &heads_.values[key], &outputs_[query], dscores_.data());
      for_each_row(count * of_.group_rows(), SoftmaxOfScoresGradient{of_, probabilities_.data(), dscores_.data()});
      multiply(of_.mix(), count, scale_, &heads_.keys[key], dscores_.data(), &gradients_.queries[query]);
      multiply(of_.collect(), count, scale_, &heads_.queries[query], dscores_.data(), &gradients_.keys[key]);
    });
    for_each_row(of_.all_heads(), ReturnHeads{of_, gradients_.split(), dx.data(), angles_});
    return dx;
  }

 private:
  void compute_probabilities(std::int64_t count, std::int64_t query, std::int64_t key) {
    multiply(of_.compare(), count, scale_, &heads_.keys[key], &heads_.queries[query], probabilities_.data());
    for_each_row(count * of_.group_rows(), SoftmaxOfScores{of_, probabilities_.data()});
  }
  template <class Pass>
  void for_each_pass(const Pass& pass) const {
    for (std::int64_t group = 0; group < of_.groups(); group += at_once_)
      pass(std::min(at_once_, of_.groups() - group), group * of_.group_rows() * of_.width,
           group * of_.places * of_.width);
  }

  AttentionExtents of_;
  std::int64_t at_once_;
  float scale_;
  Values cosines_, sines_;
  Angles angles_{nullptr, nullptr};
  Heads heads_, gradients_;
  Values outputs_, probabilities_, dscores_;
};

struct AttentionCase {
  Attention spec;
  AttentionExtents of;
};

class CudaAttention : public testing::TestWithParam<AttentionCase> {};

TEST_P(CudaAttention, AgreesWithReference) {
  const auto& [spec, of] = GetParam();
  tensor::Shape input{of.samples, of.places, of.x_heads() * of.width};
  if (of.is_joined) input = {of.samples, of.all_heads() / of.samples * of.width};
  ASSERT_EQ(extents_of(spec, input), of);
  Reference reference(spec, input);
  for (float& value : reference.x) value *= 2;
  reference.forward_backward();
  for (std::int64_t at_once : {std::int64_t{1}, std::int64_t{2}, of.groups()}) {
    OnCpu layer(spec, of, at_once);
    EXPECT_THAT(layer.forward(reference.x), Pointwise(FloatNear(2e-6f), reference.y));
    EXPECT_THAT(layer.backward(reference.x, reference.dy), Pointwise(FloatNear(5e-6f), reference.dx));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Heads, CudaAttention,
    testing::Values(AttentionCase{{.heads = 2}, {2, 4, 2, 2, 3, true}},
                    AttentionCase{{.heads = 3, .causal = false}, {1, 50, 3, 3, 8, false}},
                    AttentionCase{{.heads = 1}, {3, 70, 1, 1, 5, true}},
                    AttentionCase{{.heads = 4, .kv_heads = 2}, {2, 9, 4, 2, 6, true}},
                    AttentionCase{{.heads = 6, .kv_heads = 1, .causal = false}, {2, 5, 6, 1, 4, false}},
                    AttentionCase{{.heads = 2, .kv_heads = 1, .rotary_base = 100}, {1, 5, 2, 1, 4, true}},
                    AttentionCase{{.heads = 4, .kv_heads = 2, .rotary_base = 10000}, {2, 40, 4, 2, 8, true}},
                    AttentionCase{{.heads = 1}, {1, 1, 1, 1, 1, true}},
                    AttentionCase{{.heads = 2, .kv_heads = 1, .queries = 5}, {2, 5, 2, 1, 4, true, 5, true}},
                    AttentionCase{{.heads = 4, .kv_heads = 2, .rotary_base = 100, .queries = 3, .before = 37},
                                  {2, 40, 4, 2, 6, true, 3, true}}));

TEST(CudaAttention, SoftmaxSurvivesLargeAndInfiniteScores) {
  const AttentionExtents of{1, 4, 1, 1, 1, false};
  const float infinity = std::numeric_limits<float>::infinity();
  Values scores{1e4f, -1e4f, 0, 1e4f, -infinity, -infinity, 3, -infinity, 0, 0, 0, 0, -1e30f, -1e30f, -1e30f, -1e30f};
  for_each_row(4, SoftmaxOfScores{of, scores.data()});
  EXPECT_EQ(scores, (Values{0.5f, 0, 0, 0.5f, 0, 0, 1, 0, 0.25f, 0.25f, 0.25f, 0.25f, 0.25f, 0.25f, 0.25f, 0.25f}));
}
}  // namespace
}  // namespace distdl::kernels::cuda::test
