// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include <distdl/kernels/reference/layers.hpp>

namespace distdl::kernels::reference {
namespace {
class MaxPool2dLayer : public FloatLayer {
 public:
  MaxPool2dLayer(const MaxPool2d& spec, const tensor::Shape& input)
      : spec_(spec), in_(input), output_(dense(output_shape(spec, input))), out_(output_.shape) {}

  const ActivationFormat& output() const override { return output_; }
  void load_parameters(ConstPointers) override {}

  void forward(const float* x, float* y, Phase) override {
    for_each_window(x, [&](std::int64_t yi, std::int64_t largest) { y[yi] = x[largest]; });
  }

  void backward_input(const float* x, const float*, const float* dy, float* dx) override {
    std::fill_n(dx, tensor::element_count(in_), 0.0f);
    for_each_window(x, [&](std::int64_t yi, std::int64_t largest) { dx[largest] += dy[yi]; });
  }

  void backward_weights(const float*, const float*, Pointers) override {}

 private:
  /// visit(y's index, index in x of the window's first largest value; a NaN counts as largest).
  template <class Visit>
  void for_each_window(const float* x, Visit&& visit) const {
    std::int64_t yi = 0;
    for (std::int64_t plane = 0; plane < out_[0] * out_[1]; ++plane)
      for (std::int64_t oh = 0; oh < out_[2]; ++oh)
        for (std::int64_t ow = 0; ow < out_[3]; ++ow)
          visit(yi++, largest(x, plane, oh * spec_.stride - spec_.padding, ow * spec_.stride - spec_.padding));
  }

  std::int64_t largest(const float* x, std::int64_t plane, std::int64_t top, std::int64_t left) const {
    std::int64_t best = -1;
    for (std::int64_t h = std::max<std::int64_t>(top, 0); h < std::min(top + spec_.kernel, in_[2]); ++h)
      for (std::int64_t w = std::max<std::int64_t>(left, 0); w < std::min(left + spec_.kernel, in_[3]); ++w) {
        const std::int64_t at = (plane * in_[2] + h) * in_[3] + w;
        if (best < 0 || x[at] > x[best] || (std::isnan(x[at]) && !std::isnan(x[best]))) best = at;
      }
    return best;
  }

  MaxPool2d spec_;
  tensor::Shape in_;
  ActivationFormat output_;
  tensor::Shape out_;
};
}  // namespace

std::unique_ptr<Layer> make_layer(const MaxPool2d& spec, const tensor::Shape& input) {
  return std::make_unique<MaxPool2dLayer>(spec, input);
}

}  // namespace distdl::kernels::reference
