// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include <distdl/kernels/reference/layers.hpp>

namespace distdl::kernels::reference {
namespace {
class Conv2dLayer : public FloatLayer {
 public:
  Conv2dLayer(const Conv2d& spec, const tensor::Shape& input)
      : spec_(spec), in_(input), output_(dense(output_shape(spec, input))), out_(output_.shape) {}

  const ActivationFormat& output() const override { return output_; }

  void load_parameters(ConstPointers parameters) override {
    weight_ = parameters[0];
    bias_ = spec_.bias ? parameters[1] : nullptr;
  }

  void forward(const float* x, float* y, Phase) override {
    sums_.assign(tensor::element_count(out_), 0.0);
    if (bias_) for_each_output([&](std::int64_t at, std::int64_t channel) { sums_[at] = bias_[channel]; });
    for_each_product(
        [&](std::int64_t xi, std::int64_t wi, std::int64_t yi) { sums_[yi] += double{x[xi]} * weight_[wi]; });
    round_to(y);
  }

  void backward_input(const float*, const float*, const float* dy, float* dx) override {
    sums_.assign(tensor::element_count(in_), 0.0);
    for_each_product(
        [&](std::int64_t xi, std::int64_t wi, std::int64_t yi) { sums_[xi] += double{dy[yi]} * weight_[wi]; });
    round_to(dx);
  }

  void backward_weights(const float* x, const float* dy, Pointers gradients) override {
    sums_.assign(out_[1] * (in_[1] / spec_.groups) * spec_.kernel * spec_.kernel, 0.0);
    for_each_product([&](std::int64_t xi, std::int64_t wi, std::int64_t yi) { sums_[wi] += double{dy[yi]} * x[xi]; });
    round_to(gradients[0]);
    if (!spec_.bias) return;
    sums_.assign(out_[1], 0.0);
    for_each_output([&](std::int64_t at, std::int64_t channel) { sums_[channel] += dy[at]; });
    round_to(gradients[1]);
  }

 private:
  /// visit(x's index, weight's index, y's index) for every multiplication of the layer.
  template <class Visit>
  void for_each_product(Visit&& visit) const {
    for (std::int64_t n = 0; n < out_[0]; ++n)
      for (std::int64_t o = 0; o < out_[1]; ++o)
        for (std::int64_t c = 0; c < in_[1] / spec_.groups; ++c)
          for (std::int64_t kh = 0; kh < spec_.kernel; ++kh)
            for (std::int64_t kw = 0; kw < spec_.kernel; ++kw) visit_positions(n, o, c, kh, kw, visit);
  }

  template <class Visit>
  void visit_positions(std::int64_t n, std::int64_t o, std::int64_t c, std::int64_t kh, std::int64_t kw,
                       Visit& visit) const {
    const std::int64_t channels = in_[1] / spec_.groups;  // channels of a group
    const std::int64_t weight = ((o * channels + c) * spec_.kernel + kh) * spec_.kernel + kw;
    const std::int64_t plane = n * in_[1] + o / (out_[1] / spec_.groups) * channels + c;
    for (std::int64_t oh = 0; oh < out_[2]; ++oh)
      for (std::int64_t ow = 0; ow < out_[3]; ++ow) {
        const std::int64_t h = oh * spec_.stride - spec_.padding + kh * spec_.dilation;
        const std::int64_t w = ow * spec_.stride - spec_.padding + kw * spec_.dilation;
        if (h < 0 || h >= in_[2] || w < 0 || w >= in_[3]) continue;
        visit((plane * in_[2] + h) * in_[3] + w, weight, ((n * out_[1] + o) * out_[2] + oh) * out_[3] + ow);
      }
  }

  template <class Visit>
  void for_each_output(Visit&& visit) const {
    std::int64_t pixels = out_[2] * out_[3];
    for (std::int64_t plane = 0; plane < out_[0] * out_[1]; ++plane)
      for (std::int64_t i = 0; i < pixels; ++i) visit(plane * pixels + i, plane % out_[1]);
  }

  void round_to(float* target) const {
    for (std::size_t i = 0; i < sums_.size(); ++i) target[i] = static_cast<float>(sums_[i]);
  }

  Conv2d spec_;
  tensor::Shape in_;
  ActivationFormat output_;
  tensor::Shape out_;
  std::vector<double> sums_;
  const float* weight_ = nullptr;  // (out, C / groups, kernel, kernel)
  const float* bias_ = nullptr;    // (out)
};
}  // namespace

std::unique_ptr<Layer> make_layer(const Conv2d& spec, const tensor::Shape& input) {
  return std::make_unique<Conv2dLayer>(spec, input);
}

}  // namespace distdl::kernels::reference
