// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include <distdl/kernels/cuda/layers/image_layout.hpp>
#include <distdl/kernels/cuda/layers/layers.hpp>
#include <distdl/kernels/cuda/layers/sequences.hpp>
#include <distdl/kernels/cuda/primitives/columns.hpp>
#include <distdl/kernels/cuda/primitives/elementwise.hpp>
#include <distdl/kernels/cuda/primitives/rows.cuh>
#include <distdl/kernels/cuda/primitives/swap_axes.hpp>
#include <distdl/kernels/host/stateless.hpp>

namespace distdl::kernels::cuda {
namespace {
using tensor::Shape;

template <class T>
class PositionEmbeddingLayer : public LayerOf<T> {
 public:
  PositionEmbeddingLayer(SharedDevice device, const PositionEmbedding& spec, const ActivationFormat& input)
      : device_(std::move(device)),
        output_(input),
        slice_(spec.rows),
        places_(slice_.places > 0 ? slice_.places : input.shape.at(1)),
        width_(input.shape.back()),
        rows_(tensor::element_count(input.shape) / width_),
        before_(spec.first * width_),
        unused_((spec.places - spec.first - places_) * width_),
        chunks_(column_chunks(rows_ / places_, places_ * width_)) {
    if (slice_.places == 0) device_->reserve_scratch(column_scratch<SumOfRows<T>>(chunks_));
  }

  const ActivationFormat& output() const override { return output_; }
  bool backward_reads_output() const override { return false; }
  void load_parameters(ConstPointers parameters) override { weight_ = parameters[0] + before_; }
  void forward(const T* x, T* y, Phase) override {
    for_each_row(*device_, rows_, AddPositions<T>{x, weight_, y, places_, width_, slice_.first});
  }
  void backward_input(const T*, const T*, const T* dy, T* dx) override {
    check(cudaMemcpyAsync(dx, dy, output_.bytes, cudaMemcpyDeviceToDevice, device_->stream()), "copy on the GPU");
  }
  void backward_weights(const T*, const T* dy, Pointers gradients) override {
    float* const used = gradients[0] + before_;
    fill(*device_, gradients[0], static_cast<std::size_t>(before_), 0);
    if (slice_.places == 0)
      sum_rows(*device_, chunks_, dy, chunks_.columns, used);
    else
      for_each(*device_, static_cast<std::size_t>(chunks_.columns),
               SumOfSlice<T>{dy, used, rows_, places_, width_, slice_.first});
    fill(*device_, used + chunks_.columns, static_cast<std::size_t>(unused_), 0);
  }

 private:
  SharedDevice device_;
  ActivationFormat output_;
  RowSlice slice_;
  std::int64_t places_, width_, rows_;
  std::int64_t before_, unused_;   // numbers at the begin of the weight, and at its end, that have no place here
  ColumnChunks chunks_;            // rows: samples; columns: a whole sequence
  const float* weight_ = nullptr;  // (places, C), of (spec.places, C)
};

template <class T>
class ClassTokenLayer : public LayerOf<T> {
 public:
  ClassTokenLayer(SharedDevice device, const ActivationFormat& input)
      : device_(std::move(device)),
        output_(dense(output_shape(ClassToken{}, input.shape), input.type)),
        samples_(input.shape[0]),
        places_(input.shape[1]),
        width_(input.shape[2]),
        chunks_(column_chunks(samples_, width_)) {
    device_->reserve_scratch(column_scratch<SumOfRows<T>>(chunks_));
  }

  const ActivationFormat& output() const override { return output_; }
  bool backward_reads_output() const override { return false; }
  void load_parameters(ConstPointers parameters) override { weight_ = parameters[0]; }
  void forward(const T* x, T* y, Phase) override {
    for_each_row(*device_, samples_ * (places_ + 1), PrependToken<T>{x, weight_, y, places_, width_});
  }
  void backward_input(const T*, const T*, const T* dy, T* dx) override {
    for_each_row(*device_, samples_ * places_, DropToken<T>{dy, dx, places_, width_});
  }
  void backward_weights(const T*, const T* dy, Pointers gradients) override {
    sum_rows(*device_, chunks_, dy, (places_ + 1) * width_, gradients[0]);
  }

 private:
  SharedDevice device_;
  ActivationFormat output_;
  std::int64_t samples_, places_, width_;
  ColumnChunks chunks_;            // rows: samples
  const float* weight_ = nullptr;  // (C)
};

template <class T>
class PixelsToSequenceLayer : public StatelessOf<T> {
 public:
  PixelsToSequenceLayer(SharedDevice device, const ActivationFormat& input)
      : StatelessOf<T>(dense(output_shape(PixelsToSequence{}, input.shape), input.type)),
        device_(std::move(device)),
        channels_(has_channels_last(input) ? 1 : input.shape[1]),
        pixels_(has_channels_last(input) ? 1 : input.shape[2] * input.shape[3]) {}
  bool backward_reads_output() const override { return false; }
  void forward(const T* x, T* y, Phase) override {
    fill_each(*device_, static_cast<std::size_t>(this->count()), SwapAxes<T, T>{x, y, channels_, pixels_});
  }
  void backward_input(const T*, const T*, const T* dy, T* dx) override {
    fill_each(*device_, static_cast<std::size_t>(this->count()), SwapAxes<T, T>{dy, dx, pixels_, channels_});
  }

 private:
  SharedDevice device_;
  std::int64_t channels_, pixels_;  // 1 and 1: the input is such a sequence already
};

template <class T>
class SelectPlaceLayer : public StatelessOf<T> {
 public:
  SelectPlaceLayer(SharedDevice device, const SelectPlace& spec, const ActivationFormat& input)
      : StatelessOf<T>(dense(output_shape(spec, input.shape), input.type)),
        device_(std::move(device)),
        place_(spec.place),
        in_(input.shape) {}
  bool backward_reads_output() const override { return false; }
  void forward(const T* x, T* y, Phase) override {
    for_each_row(*device_, in_[0], SelectRow<T>{x, y, place_, in_[1], in_[2]});
  }
  void backward_input(const T*, const T*, const T* dy, T* dx) override {
    for_each_row(*device_, in_[0] * in_[1], SelectRowGradient<T>{dy, dx, place_, in_[1], in_[2]});
  }

 private:
  SharedDevice device_;
  std::int64_t place_;
  Shape in_;
};

template <class T>
class JoinContextLayer : public StatelessOf<T> {
 public:
  JoinContextLayer(SharedDevice device, const JoinContext& spec, const ActivationFormat& input)
      : StatelessOf<T>(dense(output_shape(spec, input.shape), input.type)),
        device_(std::move(device)),
        rows_(input.shape[0] * input.shape[1]),
        of_{input.shape[1], input.shape[2], input.shape[2] / (spec.heads + 2 * spec.kv_heads) * spec.heads,
            spec.before} {}
  bool backward_reads_output() const override { return false; }
  void forward(const T* x, T* y, Phase) override { for_each_row(*device_, rows_, JoinRows<T>{of_, x, y}); }
  void backward_input(const T*, const T*, const T* dy, T* dx) override {
    for_each_row(*device_, rows_, JoinRowsGradient<T>{of_, dy, dx});
  }

 private:
  SharedDevice device_;
  std::int64_t rows_;
  Joined of_;
};
}  // namespace

std::unique_ptr<Layer> make_layer(SharedDevice device, const PositionEmbedding& spec, const ActivationFormat& input) {
  return make_of_type<PositionEmbeddingLayer>(input.type, device, spec, input);
}
std::unique_ptr<Layer> make_layer(SharedDevice device, const ClassToken&, const ActivationFormat& input) {
  return make_of_type<ClassTokenLayer>(input.type, device, input);
}
std::unique_ptr<Layer> make_layer(SharedDevice device, const PixelsToSequence&, const ActivationFormat& input) {
  return make_of_type<PixelsToSequenceLayer>(input.type, device, input);
}
std::unique_ptr<Layer> make_layer(SharedDevice device, const SelectPlace& spec, const ActivationFormat& input) {
  return make_of_type<SelectPlaceLayer>(input.type, device, spec, input);
}
std::unique_ptr<Layer> make_layer(SharedDevice device, const JoinContext& spec, const ActivationFormat& input) {
  return make_of_type<JoinContextLayer>(input.type, device, spec, input);
}

}  // namespace distdl::kernels::cuda
