// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <distdl/base/errors.hpp>
#include <distdl/kernels/host/layers.hpp>

namespace distdl::kernels::host {
namespace {
using tensor::Shape;

template <class T>
class EmbeddingLayer : public LayerOf<T> {
 public:
  EmbeddingLayer(const Embedding& spec, const Shape& input)
      : spec_(spec),
        output_(dense(output_shape(spec, input), tensor::data_type_of<T>())),
        places_(tensor::element_count(input)) {}

  const ActivationFormat& output() const override { return output_; }
  void load_parameters(ConstPointers parameters) override { weight_ = parameters[0]; }
  void forward(const T* x, T* y, Phase) override {
    for (std::int64_t i = 0; i < places_; ++i) {
      T* const to = y + i * spec_.width;
      if (const std::int64_t from = row(x, i); has(from))
        std::copy_n(weight_ + from * spec_.width, spec_.width, to);
      else
        std::fill_n(to, spec_.width, T(0.0f));
    }
  }
  void backward_input(const T*, const T*, const T*, T*) override {}
  void backward_weights(const T* x, const T* dy, Pointers gradients) override {
    std::fill_n(gradients[0], spec_.entries * spec_.width, 0.0f);
    for (std::int64_t i = 0; i < places_; ++i) {
      const std::int64_t own = row(x, i);
      if (!has(own)) continue;
      float* const to = gradients[0] + own * spec_.width;
      for (std::int64_t c = 0; c < spec_.width; ++c) to[c] += dy[i * spec_.width + c];
    }
  }

 private:
  /// Returns the row in the weight; another slice of the table has a row that is not among its entries.
  std::int64_t row(const T* x, std::int64_t place) const {
    const std::int32_t number = reinterpret_cast<const std::int32_t*>(x)[place];
    const std::int64_t all = spec_.all == 0 ? spec_.entries : spec_.all;
    require(0 <= number && number < all, "position {} of the microbatch has number {}, but the table has {} rows",
            place, number, all);
    return number - spec_.first;
  }
  bool has(std::int64_t row) const { return 0 <= row && row < spec_.entries; }

  Embedding spec_;
  ActivationFormat output_;
  std::int64_t places_;
  const float* weight_ = nullptr;  // (entries, width)
};

template <class T>
class PositionEmbeddingLayer : public LayerOf<T> {
 public:
  PositionEmbeddingLayer(const PositionEmbedding& spec, const Shape& input)
      : output_(dense(input, tensor::data_type_of<T>())),
        count_(tensor::element_count(input)),
        sequence_(spec.rows.places > 0 ? spec.rows.places * input[1] : input[1] * input[2]),
        table_(spec.places * input.back()),
        first_(spec.first * input.back()),
        from_(spec.rows.first * input.back() % sequence_) {}

  const ActivationFormat& output() const override { return output_; }
  void load_parameters(ConstPointers parameters) override { weight_ = parameters[0]; }
  void forward(const T* __restrict x, T* __restrict y, Phase) override {
    each_sequence([&](std::int64_t at, std::int64_t place, std::int64_t count) {
      const float* const __restrict weight = weight_ + first_ + place;
      for (std::int64_t i = 0; i < count; ++i) y[at + i] = x[at + i] + weight[i];
    });
  }
  void backward_input(const T*, const T*, const T* dy, T* dx) override { std::copy_n(dy, count_, dx); }
  void backward_weights(const T*, const T* __restrict dy, Pointers gradients) override {
    std::fill_n(gradients[0], table_, 0.0f);
    each_sequence([&](std::int64_t at, std::int64_t place, std::int64_t count) {
      float* const __restrict to = gradients[0] + first_ + place;
      for (std::int64_t i = 0; i < count; ++i) to[i] += dy[at + i];
    });
  }

 private:
  /// A slice of the rows may begin and end within a sequence.
  void each_sequence(const auto& part) const {
    for (std::int64_t at = 0, place = from_; at < count_; place = 0) {
      const std::int64_t count = std::min(sequence_ - place, count_ - at);
      part(at, place, count);
      at += count;
    }
  }

  ActivationFormat output_;
  std::int64_t count_, sequence_, table_;  // elements: of the input, of one sequence of it, of the weight
  std::int64_t first_, from_;              // elements: of the weight, of the sequence with which the input begins
  const float* weight_ = nullptr;          // (places, C)
};

template <class T>
class ClassTokenLayer : public LayerOf<T> {
 public:
  explicit ClassTokenLayer(const Shape& input)
      : output_(dense(output_shape(ClassToken{}, input), tensor::data_type_of<T>())),
        samples_(input[0]),
        width_(input[2]),
        sequence_(input[1] * input[2]) {}

  const ActivationFormat& output() const override { return output_; }
  void load_parameters(ConstPointers parameters) override { weight_ = parameters[0]; }
  void forward(const T* x, T* y, Phase) override {
    for (std::int64_t n = 0; n < samples_; ++n) {
      T* const to = y + n * (width_ + sequence_);
      std::copy_n(x + n * sequence_, sequence_, std::copy_n(weight_, width_, to));
    }
  }
  void backward_input(const T*, const T*, const T* dy, T* dx) override {
    for (std::int64_t n = 0; n < samples_; ++n)
      std::copy_n(dy + n * (width_ + sequence_) + width_, sequence_, dx + n * sequence_);
  }
  void backward_weights(const T*, const T* dy, Pointers gradients) override {
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

template <class T>
class PixelsToSequenceLayer : public StatelessOf<T> {
 public:
  explicit PixelsToSequenceLayer(const Shape& input)
      : StatelessOf<T>(dense(output_shape(PixelsToSequence{}, input), tensor::data_type_of<T>())),
        channels_(input[1]),
        pixels_(input[2] * input[3]) {}
  void forward(const T* x, T* y, Phase) override {
    for (std::int64_t i = 0; i < this->count(); ++i) y[i] = x[source(i)];
  }
  void backward_input(const T*, const T*, const T* dy, T* dx) override {
    for (std::int64_t i = 0; i < this->count(); ++i) dx[source(i)] = dy[i];
  }

 private:
  /// Where the value comes from that is number `i` of the output.
  std::int64_t source(std::int64_t i) const {
    const std::int64_t c = i % channels_, pixel = i / channels_ % pixels_, n = i / channels_ / pixels_;
    return (n * channels_ + c) * pixels_ + pixel;
  }
  std::int64_t channels_, pixels_;
};

template <class T>
class SelectPlaceLayer : public StatelessOf<T> {
 public:
  SelectPlaceLayer(const SelectPlace& spec, const Shape& input)
      : StatelessOf<T>(dense(output_shape(spec, input), tensor::data_type_of<T>())), spec_(spec), in_(input) {}
  void forward(const T* x, T* y, Phase) override {
    for (std::int64_t n = 0; n < in_[0]; ++n) std::copy_n(x + at(n), in_[2], y + n * in_[2]);
  }
  void backward_input(const T*, const T*, const T* dy, T* dx) override {
    std::fill_n(dx, tensor::element_count(in_), T(0.0f));
    for (std::int64_t n = 0; n < in_[0]; ++n) std::copy_n(dy + n * in_[2], in_[2], dx + at(n));
  }

 private:
  std::int64_t at(std::int64_t n) const { return (n * in_[1] + spec_.place) * in_[2]; }
  SelectPlace spec_;
  Shape in_;
};

template <class T>
class JoinContextLayer : public StatelessOf<T> {
 public:
  JoinContextLayer(const JoinContext& spec, const Shape& input)
      : StatelessOf<T>(dense(output_shape(spec, input), tensor::data_type_of<T>())),
        places_(input[1]),
        rows_(input[0] * input[1]),
        row_(input[2]),
        queries_(row_ / (spec.heads + 2 * spec.kv_heads) * spec.heads),
        before_(spec.before) {}
  void forward(const T* x, T* y, Phase) override {
    for (std::int64_t i = 0; i < rows_; ++i) {
      std::copy_n(x + i * row_, queries_, y + query(i));
      std::copy_n(x + i * row_ + queries_, row_ - queries_, y + keys(i));
    }
  }
  void backward_input(const T*, const T*, const T* dy, T* dx) override {
    for (std::int64_t i = 0; i < rows_; ++i) {
      std::copy_n(dy + query(i), queries_, dx + i * row_);
      std::copy_n(dy + keys(i), row_ - queries_, dx + i * row_ + queries_);
    }
  }

 private:
  std::int64_t sample(std::int64_t i) const {
    return i / places_ * (places_ * queries_ + (before_ + places_) * (row_ - queries_));
  }
  std::int64_t query(std::int64_t i) const { return sample(i) + i % places_ * queries_; }
  std::int64_t keys(std::int64_t i) const {
    return sample(i) + places_ * queries_ + (before_ + i % places_) * (row_ - queries_);
  }
  std::int64_t places_, rows_, row_, queries_, before_;  // rows: of the input; queries: values of a row
};

struct MakeLayer {
  using Made = std::unique_ptr<Layer>;
  const ActivationFormat& input;
  tensor::DataType type;  // type of the output
  const RngKey& rng_key;

  Made operator()(const Embedding& spec) const { return make<EmbeddingLayer>(spec, input.shape); }
  Made operator()(const PositionEmbedding& spec) const { return make<PositionEmbeddingLayer>(spec, input.shape); }
  Made operator()(const ClassToken&) const { return make<ClassTokenLayer>(input.shape); }
  Made operator()(const PixelsToSequence&) const { return make<PixelsToSequenceLayer>(input.shape); }
  Made operator()(const SelectPlace& spec) const { return make<SelectPlaceLayer>(spec, input.shape); }
  Made operator()(const JoinContext& spec) const { return make<JoinContextLayer>(spec, input.shape); }
  Made operator()(const Dropout& spec) const { return make_dropout(spec, input, rng_key); }
  Made operator()(const auto&) const { return nullptr; }

 private:
  template <template <class> class LayerT, class... Arguments>
  Made make(const Arguments&... arguments) const {
    return tensor::with_type(
        type, [&](auto element) -> Made { return std::make_unique<LayerT<decltype(element)>>(arguments...); });
  }
};
}  // namespace

std::unique_ptr<Layer> make_layer(const LayerSpec& spec, const ActivationFormat& input, tensor::DataType output,
                                  const RngKey& rng_key) {
  return std::visit(MakeLayer{input, output, rng_key}, spec);
}

}  // namespace distdl::kernels::host
