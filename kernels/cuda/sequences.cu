// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include <distdl/kernels/cuda/columns.hpp>
#include <distdl/kernels/cuda/elementwise.hpp>
#include <distdl/kernels/cuda/layers.hpp>
#include <distdl/kernels/cuda/rows.cuh>
#include <distdl/kernels/cuda/sequences.hpp>
#include <distdl/kernels/host/stateless.hpp>

namespace distdl::kernels::cuda {
namespace {
using tensor::Shape;

class PositionEmbeddingLayer : public Layer {
 public:
  PositionEmbeddingLayer(SharedDevice device, const PositionEmbedding& spec, const Shape& input)
      : device_(std::move(device)),
        output_(dense(input)),
        samples_(input[0]),
        places_(input[1]),
        width_(input[2]),
        unused_((spec.places - places_) * width_),
        chunks_(column_chunks(samples_, places_ * width_)) {
    device_->reserve_scratch(column_scratch<SumOfRows>(chunks_));
  }

  const ActivationFormat& output() const override { return output_; }
  void load_parameters(ConstPointers parameters) override { weight_ = parameters[0]; }
  void forward(const float* x, float* y, Phase) override {
    for_each_row(*device_, samples_ * places_, AddPositions{x, weight_, y, places_, width_});
  }
  void backward_input(const float*, const float*, const float* dy, float* dx) override {
    check(cudaMemcpyAsync(dx, dy, output_.bytes, cudaMemcpyDeviceToDevice, device_->stream()), "copy on the GPU");
  }
  void backward_weights(const float*, const float* dy, Pointers gradients) override {
    sum_rows(*device_, chunks_, dy, chunks_.columns, gradients[0]);
    fill(*device_, gradients[0] + chunks_.columns, static_cast<std::size_t>(unused_), 0);
  }

 private:
  SharedDevice device_;
  ActivationFormat output_;
  std::int64_t samples_, places_, width_;
  std::int64_t unused_;            // numbers at the end of the weight
  ColumnChunks chunks_;            // rows: samples; columns: a whole sequence
  const float* weight_ = nullptr;  // (spec.places, C)
};

class ClassTokenLayer : public Layer {
 public:
  ClassTokenLayer(SharedDevice device, const Shape& input)
      : device_(std::move(device)),
        output_(dense(output_shape(ClassToken{}, input))),
        samples_(input[0]),
        places_(input[1]),
        width_(input[2]),
        chunks_(column_chunks(samples_, width_)) {
    device_->reserve_scratch(column_scratch<SumOfRows>(chunks_));
  }

  const ActivationFormat& output() const override { return output_; }
  void load_parameters(ConstPointers parameters) override { weight_ = parameters[0]; }
  void forward(const float* x, float* y, Phase) override {
    for_each_row(*device_, samples_ * (places_ + 1), PrependToken{x, weight_, y, places_, width_});
  }
  void backward_input(const float*, const float*, const float* dy, float* dx) override {
    for_each_row(*device_, samples_ * places_, DropToken{dy, dx, places_, width_});
  }
  void backward_weights(const float*, const float* dy, Pointers gradients) override {
    sum_rows(*device_, chunks_, dy, (places_ + 1) * width_, gradients[0]);
  }

 private:
  SharedDevice device_;
  ActivationFormat output_;
  std::int64_t samples_, places_, width_;
  ColumnChunks chunks_;            // rows: samples
  const float* weight_ = nullptr;  // (C)
};

class PixelsToSequenceLayer : public Stateless {
 public:
  PixelsToSequenceLayer(SharedDevice device, const Shape& input)
      : Stateless(dense(output_shape(PixelsToSequence{}, input))),
        device_(std::move(device)),
        channels_(input[1]),
        pixels_(input[2] * input[3]) {}
  void forward(const float* x, float* y, Phase) override {
    for_each_row(*device_, count() / channels_, Transpose{x, y, channels_, pixels_});
  }
  void backward_input(const float*, const float*, const float* dy, float* dx) override {
    for_each_row(*device_, count() / pixels_, Transpose{dy, dx, pixels_, channels_});
  }

 private:
  SharedDevice device_;
  std::int64_t channels_, pixels_;
};

class SelectPlaceLayer : public Stateless {
 public:
  SelectPlaceLayer(SharedDevice device, const SelectPlace& spec, const Shape& input)
      : Stateless(dense(output_shape(spec, input))), device_(std::move(device)), place_(spec.place), in_(input) {}
  void forward(const float* x, float* y, Phase) override {
    for_each_row(*device_, in_[0], SelectRow{x, y, place_, in_[1], in_[2]});
  }
  void backward_input(const float*, const float*, const float* dy, float* dx) override {
    for_each_row(*device_, in_[0] * in_[1], SelectRowGradient{dy, dx, place_, in_[1], in_[2]});
  }

 private:
  SharedDevice device_;
  std::int64_t place_;
  Shape in_;
};
}  // namespace

std::unique_ptr<Layer> make_position_embedding(SharedDevice device, const PositionEmbedding& spec, const Shape& input) {
  return std::make_unique<PositionEmbeddingLayer>(std::move(device), spec, input);
}
std::unique_ptr<Layer> make_class_token(SharedDevice device, const Shape& input) {
  return std::make_unique<ClassTokenLayer>(std::move(device), input);
}
std::unique_ptr<Layer> make_pixels_to_sequence(SharedDevice device, const Shape& input) {
  return std::make_unique<PixelsToSequenceLayer>(std::move(device), input);
}
std::unique_ptr<Layer> make_select_place(SharedDevice device, const SelectPlace& spec, const Shape& input) {
  return std::make_unique<SelectPlaceLayer>(std::move(device), spec, input);
}

}  // namespace distdl::kernels::cuda
