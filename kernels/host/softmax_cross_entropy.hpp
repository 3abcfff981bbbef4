// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include <distdl/kernels/backend.hpp>

namespace distdl::kernels {

/// Sums in double and subtracts the largest logit first, so that large logits are no trouble.
class SoftmaxCrossEntropy : public Loss {
 public:
  /// Throws ConfigError unless `logits` is (N, classes) or (N, T, classes), and smoothing at least 0 and below 1.
  SoftmaxCrossEntropy(const ActivationFormat& logits, const CrossEntropy& how);
  void forward_backward(const float* logits, const std::int32_t* labels, float scale, float* dlogits,
                        float* totals) override;

 private:
  /// The loss of one row; then exponentials_ hold exp(logit - largest), and `sum` their sum.
  double loss_of(const float* row, const float* largest, std::int32_t label, double& sum);

  CrossEntropy how_;
  std::int64_t samples_;
  std::int64_t classes_;
  std::vector<double> exponentials_;
};

}  // namespace distdl::kernels
