// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include <distdl/base/errors.hpp>
#include <distdl/kernels/host/softmax_cross_entropy.hpp>

namespace distdl::kernels {
namespace {
tensor::Shape checked(const ActivationFormat& logits) {
  require(logits.shape.size() == 2 && !logits.layout, "the loss takes dense logits (N, classes), not {}",
          tensor::to_string(logits.shape));
  return logits.shape;
}
}  // namespace

SoftmaxCrossEntropy::SoftmaxCrossEntropy(const ActivationFormat& logits)
    : samples_(checked(logits)[0]), classes_(logits.shape[1]), exponentials_(static_cast<std::size_t>(classes_)) {}

void SoftmaxCrossEntropy::forward_backward(const float* logits, const std::int32_t* labels, float scale, float* dlogits,
                                           float* totals) {
  double loss = 0;
  std::int64_t correct = 0;
  for (std::int64_t n = 0; n < samples_; ++n) {
    const float* row = logits + n * classes_;
    std::int32_t label = labels[n];
    require(0 <= label && label < classes_, "sample {} of the microbatch has label {}, but the model has {} classes", n,
            label, classes_);
    const float* largest = std::max_element(row, row + classes_);
    double sum = 0;
    for (std::int64_t c = 0; c < classes_; ++c) {
      exponentials_[c] = std::exp(static_cast<double>(row[c]) - *largest);
      sum += exponentials_[c];
    }
    loss += std::log(sum) + *largest - row[label];
    if (largest - row == label) ++correct;
    if (!dlogits) continue;
    float* gradient = dlogits + n * classes_;
    for (std::int64_t c = 0; c < classes_; ++c)
      gradient[c] = static_cast<float>((exponentials_[c] / sum - (c == label ? 1.0 : 0.0)) * scale);
  }
  totals[0] = static_cast<float>(loss);
  totals[1] = static_cast<float>(correct);
}

}  // namespace distdl::kernels
