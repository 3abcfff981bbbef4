// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <utility>

#include <distdl/kernels/host/vectors.hpp>
#include <distdl/kernels/onednn/layers.hpp>
#include <distdl/kernels/onednn/planes.hpp>

namespace distdl::kernels::onednn {
namespace {
// Vectors of the compiler's: GCC does not vectorize these loops by itself. Four lanes are native everywhere.
constexpr std::int64_t kWidth = 4;
using Floats = float __attribute__((vector_size(kWidth * sizeof(float))));
using Ints = std::int32_t __attribute__((vector_size(kWidth * sizeof(std::int32_t))));

template <class Vector, class T>
Vector load(const T* from) {
  Vector vector;
  std::memcpy(&vector, from, sizeof(vector));
  return vector;
}

template <class Vector, class T>
void store(T* to, Vector vector) {
  std::memcpy(to, &vector, sizeof(vector));
}

/// best = max(best, values), and `where` they came from. A NaN counts as largest.
void keep_larger(const float* values, std::int32_t k, float* best, std::int32_t* where, std::int64_t lanes) {
  std::int64_t i = 0;
  for (; i + kWidth <= lanes; i += kWidth) {
    auto value = load<Floats>(values + i), old = load<Floats>(best + i);
    Ints larger = (value > old) | (value != value);  // NOLINT(misc-redundant-expression): not for a NaN
    store(where + i, larger ? Ints{} + k : load<Ints>(where + i));
    store(best + i, larger ? value : old);
  }
  for (; i < lanes; ++i) {
    if (!(values[i] > best[i] || values[i] != values[i])) continue;
    where[i] = k;
    best[i] = values[i];
  }
}

/// By integers, which are in the order of the values.
template <class Maths>
void keep_larger(const tensor::Half<Maths>* __restrict values, std::int32_t k, tensor::Half<Maths>* __restrict best,
                 std::int32_t* __restrict where, std::int64_t lanes) {
  for (std::int64_t i = 0; i < lanes; ++i) {
    const auto value = static_cast<std::int16_t>(values[i].bits), old = static_cast<std::int16_t>(best[i].bits);
    const bool larger = (Maths::Order::key(value) > Maths::Order::key(old)) | Maths::Order::is_nan(value);
    where[i] = larger ? k : where[i];
    best[i].bits = larger ? value : old;
  }
}

/// dx += dy where the window's largest value was its k-th.
void add_where_largest(const float* dy, const std::int32_t* where, std::int32_t k, float* dx, std::int64_t lanes) {
  std::int64_t i = 0;
  for (; i + kWidth <= lanes; i += kWidth) {
    Floats gradient = load<Ints>(where + i) == k ? load<Floats>(dy + i) : Floats{};
    store(dx + i, load<Floats>(dx + i) + gradient);
  }
  for (; i < lanes; ++i)
    if (where[i] == k) dx[i] += dy[i];
}

template <class Maths>
void add_where_largest(const tensor::Half<Maths>* __restrict dy, const std::int32_t* __restrict where, std::int32_t k,
                       tensor::Half<Maths>* __restrict dx, std::int64_t lanes) {
  for (std::int64_t i = 0; i < lanes; ++i) dx[i] = dx[i] + (where[i] == k ? float{dy[i]} : 0.0f);
}

/// Own loops rather than oneDNN's: backward goes over memory once instead of twice, and a NaN counts as the largest
/// value.
template <class T>
class MaxPool2dLayer : public LayerOf<T> {
 public:
  MaxPool2dLayer(const MaxPool2d& spec, const ActivationFormat& input) : spec_(spec), in_(planes_of(input)), out_(in_) {
    tensor::Shape shape = output_shape(spec, input.shape);
    output_ = format_of(shape, in_);
    out_.height = shape[2];
    out_.width = shape[3];
    largest_ = tensor::allocate_host(out_.count * out_.size() * sizeof(std::int32_t));
  }

  const ActivationFormat& output() const override { return output_; }
  bool backward_reads_output() const override { return false; }
  void load_parameters(ConstPointers) override {}

  void forward(const T* x, T* y, Phase) override {
    host::vectorized([=, this] { pool(x, y); });
  }
  void backward_input(const T*, const T*, const T* dy, T* dx) override {
    host::vectorized([=, this] { spread(dy, dx); });
  }
  void backward_weights(const T*, const T*, Pointers) override {}

 private:
  void pool(const T* x, T* y) const {
    for (std::int64_t plane = 0; plane < in_.count; ++plane)
      for_each_window(plane, [&](const Window& window, std::int64_t at) {
        T* best = y + at;
        std::int32_t* where = largest_.as<std::int32_t>().data() + at;
        bool first = true;
        for_each_value(window, [&](std::int32_t k, std::int64_t from) {
          if (std::exchange(first, false)) {
            std::copy_n(x + from, in_.lanes, best);
            std::fill_n(where, in_.lanes, k);
          } else {
            keep_larger(x + from, k, best, where, in_.lanes);
          }
        });
      });
  }

  void spread(const T* dy, T* dx) const {
    for (std::int64_t plane = 0; plane < in_.count; ++plane) {
      std::fill_n(dx + plane * in_.size(), in_.size(), T(0.0f));  // a plane, which stays in the cache
      for_each_window(plane, [&](const Window& window, std::int64_t at) {
        const std::int32_t* where = largest_.as<std::int32_t>().data() + at;
        for_each_value(
            window, [&](std::int32_t k, std::int64_t to) { add_where_largest(dy + at, where, k, dx + to, in_.lanes); });
      });
    }
  }

  /// Its corner may lie in the padding.
  struct Window {
    std::int64_t plane, top, left;
  };
  /// visit(window, index in y), for the first lane.
  template <class Visit>
  void for_each_window(std::int64_t plane, Visit&& visit) const {
    std::int64_t y = plane * out_.size();
    for (std::int64_t oh = 0; oh < out_.height; ++oh)
      for (std::int64_t ow = 0; ow < out_.width; ++ow, y += out_.lanes)
        visit(Window{plane, oh * spec_.stride - spec_.padding, ow * spec_.stride - spec_.padding}, y);
  }

  /// visit(number of the value in its window, index in x), for the first lane.
  template <class Visit>
  void for_each_value(const Window& window, Visit&& visit) const {
    const std::int64_t below = std::min(spec_.kernel, in_.height - window.top);
    const std::int64_t right = std::min(spec_.kernel, in_.width - window.left);
    for (std::int64_t kh = std::max<std::int64_t>(0, -window.top); kh < below; ++kh)
      for (std::int64_t kw = std::max<std::int64_t>(0, -window.left); kw < right; ++kw)
        visit(static_cast<std::int32_t>(kh * spec_.kernel + kw),
              window.plane * in_.size() + ((window.top + kh) * in_.width + window.left + kw) * in_.lanes);
  }

  MaxPool2d spec_;
  Planes in_, out_;
  ActivationFormat output_;
  tensor::Buffer largest_;  // per value of y: which value of its window
};
}  // namespace

std::unique_ptr<Layer> make_layer(Context&, const MaxPool2d& spec, const ActivationFormat& input) {
  return tensor::with_type(input.type, [&](auto type) -> std::unique_ptr<Layer> {
    return std::make_unique<MaxPool2dLayer<decltype(type)>>(spec, input);
  });
}

}  // namespace distdl::kernels::onednn
