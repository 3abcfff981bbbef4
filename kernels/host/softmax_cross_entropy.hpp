// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include <distdl/kernels/backend.hpp>

namespace distdl::kernels {

/// Sums in double and subtracts the largest logit first, so that large logits are no trouble.
class SoftmaxCrossEntropy : public Loss {
 public:
  /// Throws ConfigError unless `logits` is (N, classes).
  explicit SoftmaxCrossEntropy(const ActivationFormat& logits);
  void forward_backward(const float* logits, const std::int32_t* labels, float scale, float* dlogits,
                        float* totals) override;

 private:
  std::int64_t samples_;
  std::int64_t classes_;
  std::vector<double> exponentials_;
};

}  // namespace distdl::kernels
