// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <distdl/base/errors.hpp>
#include <distdl/kernels/host/layers.hpp>

namespace distdl::kernels::host {
namespace {
using tensor::Shape;

class EmbeddingLayer : public Layer {
 public:
  EmbeddingLayer(const Embedding& spec, const Shape& input)
      : spec_(spec), output_(dense(output_shape(spec, input))), places_(tensor::element_count(input)) {}

  const ActivationFormat& output() const override { return output_; }
  void load_parameters(ConstPointers parameters) override { weight_ = parameters[0]; }
  void forward(const float* x, float* y, Phase) override {
    for (std::int64_t i = 0; i < places_; ++i) std::copy_n(weight_ + row(x, i), spec_.width, y + i * spec_.width);
  }
  void backward_input(const float*, const float*, const float*, float*) override {}
  void backward_weights(const float* x, const float* dy, Pointers gradients) override {
    std::fill_n(gradients[0], spec_.entries * spec_.width, 0.0f);
    for (std::int64_t i = 0; i < places_; ++i) {
      float* const to = gradients[0] + row(x, i);
      for (std::int64_t c = 0; c < spec_.width; ++c) to[c] += dy[i * spec_.width + c];
    }
  }

 private:
  std::int64_t row(const float* x, std::int64_t place) const {
    const std::int32_t number = reinterpret_cast<const std::int32_t*>(x)[place];
    require(0 <= number && number < spec_.entries,
            "place {} of the microbatch has number {}, but the table has {} rows", place, number, spec_.entries);
    return number * spec_.width;
  }

  Embedding spec_;
  ActivationFormat output_;
  std::int64_t places_;
  const float* weight_ = nullptr;  // (entries, width)
};

class PositionEmbeddingLayer : public Layer {
 public:
  PositionEmbeddingLayer(const PositionEmbedding& spec, const Shape& input)
      : output_(dense(input)),
        count_(tensor::element_count(input)),
        sequence_(input[1] * input[2]),
        table_(spec.places * input[2]) {}

  const ActivationFormat& output() const override { return output_; }
  void load_parameters(ConstPointers parameters) override { weight_ = parameters[0]; }
  void forward(const float* __restrict x, float* __restrict y, Phase) override {
    for (std::int64_t at = 0; at < count_; at += sequence_)
      for (std::int64_t i = 0; i < sequence_; ++i) y[at + i] = x[at + i] + weight_[i];
  }
  void backward_input(const float*, const float*, const float* dy, float* dx) override { std::copy_n(dy, count_, dx); }
  void backward_weights(const float*, const float* __restrict dy, Pointers gradients) override {
    float* const __restrict to = gradients[0];
    std::fill_n(to, table_, 0.0f);
    for (std::int64_t at = 0; at < count_; at += sequence_)
      for (std::int64_t i = 0; i < sequence_; ++i) to[i] += dy[at + i];
  }

 private:
  ActivationFormat output_;
  std::int64_t count_, sequence_, table_;  // elements: of the input, of one sequence of it, of the weight
  const float* weight_ = nullptr;          // (places, C)
};

class ClassTokenLayer : public Layer {
 public:
  explicit ClassTokenLayer(const Shape& input)
      : output_(dense(output_shape(ClassToken{}, input))),
        samples_(input[0]),
        width_(input[2]),
        sequence_(input[1] * input[2]) {}

  const ActivationFormat& output() const override { return output_; }
  void load_parameters(ConstPointers parameters) override { weight_ = parameters[0]; }
  void forward(const float* x, float* y, Phase) override {
    for (std::int64_t n = 0; n < samples_; ++n) {
      float* const to = y + n * (width_ + sequence_);
      std::copy_n(x + n * sequence_, sequence_, std::copy_n(weight_, width_, to));
    }
  }
  void backward_input(const float*, const float*, const float* dy, float* dx) override {
    for (std::int64_t n = 0; n < samples_; ++n)
      std::copy_n(dy + n * (width_ + sequence_) + width_, sequence_, dx + n * sequence_);
  }
  void backward_weights(const float*, const float* dy, Pointers gradients) override {
    for (std::int64_t c = 0; c < width_; ++c) {
      double sum = 0;
      for (std::int64_t n = 0; n < samples_; ++n) sum += dy[n * (width_ + sequence_) + c];
      gradients[0][c] = static_cast<float>(sum);
    }
  }

 private:
  ActivationFormat output_;
  std::int64_t samples_, width_, sequence_;
  const float* weight_ = nullptr;  // (C)
};

class PixelsToSequenceLayer : public Stateless {
 public:
  explicit PixelsToSequenceLayer(const Shape& input)
      : Stateless(dense(output_shape(PixelsToSequence{}, input))), channels_(input[1]), pixels_(input[2] * input[3]) {}
  void forward(const float* x, float* y, Phase) override {
    for (std::int64_t i = 0; i < count(); ++i) y[i] = x[source(i)];
  }
  void backward_input(const float*, const float*, const float* dy, float* dx) override {
    for (std::int64_t i = 0; i < count(); ++i) dx[source(i)] = dy[i];
  }

 private:
  /// Where the value comes from that is number `i` of the output.
  std::int64_t source(std::int64_t i) const {
    const std::int64_t c = i % channels_, pixel = i / channels_ % pixels_, n = i / channels_ / pixels_;
    return (n * channels_ + c) * pixels_ + pixel;
  }
  std::int64_t channels_, pixels_;
};

class SelectPlaceLayer : public Stateless {
 public:
  SelectPlaceLayer(const SelectPlace& spec, const Shape& input)
      : Stateless(dense(output_shape(spec, input))), spec_(spec), in_(input) {}
  void forward(const float* x, float* y, Phase) override {
    for (std::int64_t n = 0; n < in_[0]; ++n) std::copy_n(x + at(n), in_[2], y + n * in_[2]);
  }
  void backward_input(const float*, const float*, const float* dy, float* dx) override {
    std::fill_n(dx, tensor::element_count(in_), 0.0f);
    for (std::int64_t n = 0; n < in_[0]; ++n) std::copy_n(dy + n * in_[2], in_[2], dx + at(n));
  }

 private:
  std::int64_t at(std::int64_t n) const { return (n * in_[1] + spec_.place) * in_[2]; }
  SelectPlace spec_;
  Shape in_;
};
}  // namespace

std::unique_ptr<Layer> make_embedding(const Embedding& spec, const Shape& input) {
  return std::make_unique<EmbeddingLayer>(spec, input);
}
std::unique_ptr<Layer> make_position_embedding(const PositionEmbedding& spec, const Shape& input) {
  return std::make_unique<PositionEmbeddingLayer>(spec, input);
}
std::unique_ptr<Layer> make_class_token(const Shape& input) {
  return std::make_unique<ClassTokenLayer>(input);
}
std::unique_ptr<Layer> make_pixels_to_sequence(const Shape& input) {
  return std::make_unique<PixelsToSequenceLayer>(input);
}
std::unique_ptr<Layer> make_select_place(const SelectPlace& spec, const Shape& input) {
  return std::make_unique<SelectPlaceLayer>(spec, input);
}

}  // namespace distdl::kernels::host
