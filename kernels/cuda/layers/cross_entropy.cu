// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include <distdl/kernels/cuda/layers/cross_entropy.hpp>
#include <distdl/kernels/cuda/layers/layers.hpp>
#include <distdl/kernels/cuda/primitives/rows.cuh>

namespace distdl::kernels::cuda {
namespace {
template <class T>
class CrossEntropyLoss : public Loss {
 public:
  CrossEntropyLoss(SharedDevice device, const CrossEntropy& spec, const ActivationFormat& logits)
      : device_(std::move(device)),
        spec_(spec),
        rows_(loss_terms(spec, logits.shape)),
        classes_(static_cast<std::int32_t>(logits.shape.back())),
        state_(device_->allocate(sizeof(double) * 3 * static_cast<std::size_t>(rows_))) {}

  void forward_backward(const void* given, const void* targets, float scale, void* to, float* totals) override {
    const auto* logits = static_cast<const T*>(given);
    auto* gradient = static_cast<T*>(to);
    const Numbers labels{static_cast<const std::int32_t*>(targets), rows_, classes_, spec_.ignore.has_value(),
                         spec_.ignore.value_or(0)};
    check_numbers(*device_, labels, NumberFault::Of::label);
    MixedTargets mixed;
    if (spec_.is_mixed) {
      mixed.others = labels.data + rows_;
      mixed.shares = reinterpret_cast<const float*>(labels.data + 2 * rows_);
      check_numbers(*device_, {mixed.others, rows_, classes_}, NumberFault::Of::label);
    }
    auto* losses = static_cast<double*>(state_.data());
    const RowLosses of_rows{losses, losses + rows_, losses + 2 * rows_};
    for_each_long_row(*device_, rows_,
                      CrossEntropyRow<T>{logits, labels, spec_.smoothing, scale, gradient, of_rows, mixed});
    sum_each(*device_, 3, rows_, TotalLosses{losses, totals, rows_});
  }

 private:
  SharedDevice device_;
  CrossEntropy spec_;
  std::int64_t rows_;
  std::int32_t classes_;
  tensor::Buffer state_;  // (3, rows) doubles
};
}  // namespace

std::unique_ptr<Loss> make_cross_entropy(SharedDevice device, const CrossEntropy& spec,
                                         const ActivationFormat& logits) {
  return make_of_type<CrossEntropyLoss, Loss>(logits.type, device, spec, logits);
}

}  // namespace distdl::kernels::cuda
