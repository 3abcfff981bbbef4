// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include <distdl/kernels/cuda/layers/layers.hpp>
#include <distdl/kernels/cuda/layers/row_norm.hpp>
#include <distdl/kernels/cuda/primitives/columns.cuh>
#include <distdl/kernels/cuda/primitives/rows.cuh>

namespace distdl::kernels::cuda {
namespace {
template <class T>
class RowNormLayer : public LayerOf<T> {
 public:
  RowNormLayer(SharedDevice device, const RowNorm& norm, const ActivationFormat& input)
      : device_(std::move(device)),
        norm_(norm),
        output_(input),
        rows_(tensor::element_count(input.shape) / norm.width),
        state_(device_->allocate(sizeof(float) * 2 * static_cast<std::size_t>(rows_))),
        moments_{static_cast<float*>(state_.data()), static_cast<float*>(state_.data()) + rows_},
        chunks_(column_chunks(rows_, norm.width)) {
    device_->reserve_scratch(column_scratch<RowNormWeightGradient<T>>(chunks_));
  }

  const ActivationFormat& output() const override { return output_; }
  bool backward_reads_output() const override { return false; }

  void load_parameters(ConstPointers parameters) override {
    weight_ = parameters[0];
    bias_ = norm_.is_centred ? parameters[1] : nullptr;
  }

  void forward(const T* x, T* y, Phase phase) override {
    const RowMoments kept = phase == Phase::training ? moments_ : RowMoments{nullptr, nullptr};
    for_each_row(*device_, rows_, RowNormForward<T>{norm_, x, weight_, bias_, y, kept});
  }

  void backward_input(const T* x, const T*, const T* dy, T* dx) override {
    for_each_row(*device_, rows_, RowNormInputGradient<T>{norm_, x, dy, weight_, moments_, dx});
  }

  void backward_weights(const T* x, const T* dy, Pointers gradients) override {
    float* const bias = norm_.is_centred ? gradients[1] : nullptr;
    sum_columns(*device_, chunks_, RowNormWeightGradient<T>{norm_, x, dy, moments_, gradients[0], bias});
  }

 private:
  SharedDevice device_;
  RowNorm norm_;
  ActivationFormat output_;
  std::int64_t rows_;
  tensor::Buffer state_;  // (2, rows) floats
  RowMoments moments_;    // moments of the last training forward
  ColumnChunks chunks_;
  const float* weight_ = nullptr;  // (width)
  const float* bias_ = nullptr;    // (width)
};
}  // namespace

/// Ba et al., "Layer normalization", 2016.
std::unique_ptr<Layer> make_layer(SharedDevice device, const LayerNorm& spec, const ActivationFormat& input) {
  return make_of_type<RowNormLayer>(input.type, device, RowNorm{input.shape.back(), spec.epsilon, true}, input);
}
/// Zhang and Sennrich, "Root mean square layer normalization", 2019.
std::unique_ptr<Layer> make_layer(SharedDevice device, const RmsNorm& spec, const ActivationFormat& input) {
  return make_of_type<RowNormLayer>(input.type, device, RowNorm{input.shape.back(), spec.epsilon, false}, input);
}

}  // namespace distdl::kernels::cuda
