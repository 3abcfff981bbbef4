// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include <distdl/base/errors.hpp>
#include <distdl/kernels/host/softmax_cross_entropy.hpp>

namespace distdl::kernels {
namespace {
std::int64_t classes_of(const ActivationFormat& logits) {
  require((logits.shape.size() == 2 || logits.shape.size() == 3) && !logits.layout,
          "the loss takes dense logits (N, classes) or (N, T, classes), not {}", tensor::to_string(logits.shape));
  return logits.shape.back();
}
}  // namespace

SoftmaxCrossEntropy::SoftmaxCrossEntropy(const ActivationFormat& logits, const CrossEntropy& how)
    : how_(how),
      samples_(tensor::element_count(logits.shape) / classes_of(logits)),
      classes_(logits.shape.back()),
      exponentials_(static_cast<std::size_t>(classes_)) {
  require(how.smoothing >= 0 && how.smoothing < 1, "label smoothing is {}: at least 0 and less than 1 is expected",
          how.smoothing);
}

double SoftmaxCrossEntropy::loss_of(const float* row, const float* largest, std::int32_t label, double& sum) {
  sum = 0;
  double mean = 0;  // of the logits
  for (std::int64_t c = 0; c < classes_; ++c) {
    exponentials_[c] = std::exp(static_cast<double>(row[c]) - *largest);
    sum += exponentials_[c];
    mean += row[c] / static_cast<double>(classes_);
  }
  const double smoothing = how_.smoothing;
  return std::log(sum) + *largest - (1 - smoothing) * row[label] - (smoothing > 0 ? smoothing * mean : 0);
}

void SoftmaxCrossEntropy::forward_backward(const float* logits, const std::int32_t* labels, float scale, float* dlogits,
                                           float* totals) {
  double loss = 0, sum = 0;
  std::int64_t correct = 0, counted = 0;
  const double everywhere = double{how_.smoothing} / static_cast<double>(classes_), there = 1 - double{how_.smoothing};
  for (std::int64_t n = 0; n < samples_; ++n) {
    const float* row = logits + n * classes_;
    float* const gradient = dlogits ? dlogits + n * classes_ : nullptr;
    const std::int32_t label = labels[n];
    if (how_.ignore == label) {
      if (gradient) std::fill_n(gradient, classes_, 0.0f);
      continue;
    }
    require(0 <= label && label < classes_, "sample {} of the microbatch has label {}, but the model has {} classes", n,
            label, classes_);
    const float* largest = std::max_element(row, row + classes_);
    loss += loss_of(row, largest, label, sum);
    ++counted;
    if (largest - row == label) ++correct;
    for (std::int64_t c = 0; gradient && c < classes_; ++c)
      gradient[c] = static_cast<float>((exponentials_[c] / sum - everywhere - (c == label ? there : 0.0)) * scale);
  }
  totals[0] = static_cast<float>(loss);
  totals[1] = static_cast<float>(correct);
  totals[2] = static_cast<float>(counted);
}

}  // namespace distdl::kernels
