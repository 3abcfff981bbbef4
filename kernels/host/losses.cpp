// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include <distdl/base/errors.hpp>
#include <distdl/kernels/host/losses.hpp>
#include <distdl/tensor/half.hpp>

namespace distdl::kernels::host {
namespace {
/// Subtracts the largest logit first, so that large logits are no trouble.
template <class T>
class SoftmaxCrossEntropy : public Loss {
 public:
  SoftmaxCrossEntropy(const CrossEntropy& spec, const tensor::Shape& logits)
      : spec_(spec),
        rows_(loss_terms(spec, logits)),
        classes_(logits.back()),
        exponentials_(static_cast<std::size_t>(classes_)) {}

  void forward_backward(const void* given, const void* targets, float scale, void* given_gradient,
                        float* totals) override {
    const auto* const logits = static_cast<const T*>(given);
    auto* const gradient = static_cast<T*>(given_gradient);
    double loss = 0;
    std::int64_t correct = 0, counted = 0;
    for (std::int64_t n = 0; n < rows_; ++n) {
      const T* row = logits + n * classes_;
      T* const to = gradient ? gradient + n * classes_ : nullptr;
      const RowTarget target = target_of(targets, n);
      if (spec_.ignore == target.label) {
        if (to) std::fill_n(to, classes_, T(0.0f));
        continue;
      }
      for (const std::int32_t label : {target.label, target.other})
        require(0 <= label && label < classes_, "row {} of the microbatch has label {}, but the model has {} classes",
                n, label, classes_);
      const T* largest = std::max_element(row, row + classes_);
      double sum = 0;
      loss += loss_of(row, *largest, target, sum);
      ++counted;
      if (largest - row == (target.share >= 0.5 ? target.label : target.other)) ++correct;
      if (to) write_gradient(to, target, sum, scale);
    }
    totals[0] = static_cast<float>(loss);
    totals[1] = static_cast<float>(correct);
    totals[2] = static_cast<float>(counted);
  }

 private:
  struct RowTarget {
    std::int32_t label, other;
    double share;  ///< the part of `label`
  };
  RowTarget target_of(const void* targets, std::int64_t row) const {
    const auto* labels = static_cast<const std::int32_t*>(targets) + row;
    if (!spec_.is_mixed) return {*labels, *labels, 1};
    return {*labels, labels[rows_], double{std::bit_cast<float>(labels[2 * rows_])}};
  }

  /// The loss of one row; then exponentials_ hold exp(logit - largest), and `sum` their sum.
  double loss_of(const T* row, double largest, const RowTarget& target, double& sum) {
    double logits = 0;
    for (std::int64_t c = 0; c < classes_; ++c) {
      exponentials_[c] = std::exp(row[c] - largest);
      sum += exponentials_[c];
      logits += row[c];
    }
    const double smoothing = spec_.smoothing;
    // Without smoothing a logit that is infinite must not matter where it is not the label's.
    const double even = smoothing > 0 ? smoothing * logits / static_cast<double>(classes_) : 0;
    const double wanted = target.share == 1 ? double{row[target.label]}
                                            : target.share * row[target.label] + (1 - target.share) * row[target.other];
    return std::log(sum) + largest - (1 - smoothing) * wanted - even;
  }

  void write_gradient(T* to, const RowTarget& target, double sum, float scale) const {
    const double even = double{spec_.smoothing} / static_cast<double>(classes_), there = 1 - double{spec_.smoothing};
    for (std::int64_t c = 0; c < classes_; ++c) to[c] = static_cast<float>((exponentials_[c] / sum - even) * scale);
    for (const std::int64_t c : {target.label, target.other}) {
      const double share = (c == target.label ? target.share : 0) + (c == target.other ? 1 - target.share : 0);
      to[c] = static_cast<float>((exponentials_[c] / sum - even - there * share) * scale);
    }
  }

  CrossEntropy spec_;
  std::int64_t rows_, classes_;
  std::vector<double> exponentials_;
};

template <class T>
class SquaredError : public Loss {
 public:
  explicit SquaredError(const tensor::Shape& predictions)
      : samples_(predictions[0]), values_(tensor::element_count(predictions) / samples_) {}

  void forward_backward(const void* given, const void* targets, float scale, void* given_gradient,
                        float* totals) override {
    const auto* const predictions = static_cast<const T*>(given);
    auto* const gradient = static_cast<T*>(given_gradient);
    const auto* wanted = static_cast<const float*>(targets);
    double sum = 0;
    for (std::int64_t i = 0; i < samples_ * values_; ++i) {
      const double error = static_cast<double>(predictions[i]) - wanted[i];
      sum += error * error;
      if (gradient) gradient[i] = static_cast<float>(2 * error / static_cast<double>(values_) * scale);
    }
    totals[0] = static_cast<float>(sum / static_cast<double>(values_));
    totals[1] = 0;
    totals[2] = static_cast<float>(samples_);
  }

 private:
  std::int64_t samples_, values_;
};
}  // namespace

std::unique_ptr<Loss> make_cross_entropy(const CrossEntropy& spec, const ActivationFormat& logits) {
  return tensor::with_type(logits.type, [&](auto type) -> std::unique_ptr<Loss> {
    return std::make_unique<SoftmaxCrossEntropy<decltype(type)>>(spec, logits.shape);
  });
}
std::unique_ptr<Loss> make_mean_squared_error(const ActivationFormat& predictions) {
  return tensor::with_type(predictions.type, [&](auto type) -> std::unique_ptr<Loss> {
    return std::make_unique<SquaredError<decltype(type)>>(predictions.shape);
  });
}

}  // namespace distdl::kernels::host
