// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include <distdl/kernels/cuda/layers/layers.hpp>
#include <distdl/kernels/cuda/layers/sliced_entropy.hpp>
#include <distdl/kernels/cuda/primitives/rows.cuh>

namespace distdl::kernels::cuda {
namespace {
template <class T>
class SlicedEntropyLoss : public SlicedLoss {
 public:
  SlicedEntropyLoss(SharedDevice device, const CrossEntropy& spec, const ActivationFormat& logits,
                    const ClassSlice& place)
      : device_(std::move(device)),
        spec_(spec),
        place_(place),
        rows_(loss_terms(spec, logits.shape)),
        classes_(logits.shape.back()),
        state_(device_->allocate(sizeof(double) * 3 * static_cast<std::size_t>(rows_))) {}

  std::size_t summary_count() const override {
    return static_cast<std::size_t>(rows_) * sizeof(SliceOfRow) / sizeof(float);
  }
  void summarize(const void* logits, const void* targets, float* summary) override {
    const auto slice = slice_of(logits, targets);
    check_numbers(*device_, slice.labels, NumberFault::Of::label);
    for_each_long_row(*device_, rows_, SummarizeRow<T>{slice, reinterpret_cast<SliceOfRow*>(summary)});
  }
  void forward_backward(const void* logits, const void* targets, const float* summaries, float scale, void* gradient,
                        float* totals) override {
    auto* losses = static_cast<double*>(state_.data());
    const RowLosses of_rows{losses, losses + rows_, losses + 2 * rows_};
    const auto* const all = reinterpret_cast<const SliceOfRow*>(summaries);
    for_each_long_row(*device_, rows_,
                      SlicedEntropyRow<T>{slice_of(logits, targets), all, place_.count, rows_, scale,
                                          static_cast<T*>(gradient), of_rows});
    sum_each(*device_, 3, rows_, TotalLosses{losses, totals, rows_});
  }

 private:
  SliceOfLogits<T> slice_of(const void* logits, const void* targets) const {
    const Numbers labels{static_cast<const std::int32_t*>(targets), rows_, static_cast<std::int32_t>(place_.all),
                         spec_.ignore.has_value(), spec_.ignore.value_or(0)};
    return {static_cast<const T*>(logits), labels, place_.first, classes_, spec_.smoothing};
  }

  SharedDevice device_;
  CrossEntropy spec_;
  ClassSlice place_;
  std::int64_t rows_, classes_;  ///< classes: of this slice
  tensor::Buffer state_;         // (3, rows) doubles
};
}  // namespace

std::unique_ptr<SlicedLoss> make_sliced_entropy(SharedDevice device, const CrossEntropy& spec,
                                                const ActivationFormat& logits, const ClassSlice& slice) {
  return make_of_type<SlicedEntropyLoss, SlicedLoss>(logits.type, device, spec, logits, slice);
}

}  // namespace distdl::kernels::cuda
