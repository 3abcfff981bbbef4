// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include <distdl/kernels/reference/layers.hpp>

namespace distdl::kernels::reference {
namespace {
/// Windows kernel_h x kernel_w, without padding.
class AveragePoolLayer : public Stateless {
 public:
  AveragePoolLayer(const tensor::Shape& input, const tensor::Shape& output, std::int64_t out_h, std::int64_t out_w,
                   std::int64_t kernel_h, std::int64_t kernel_w, std::int64_t stride)
      : Stateless(dense(output)),
        in_(input),
        out_h_(out_h),
        out_w_(out_w),
        kernel_h_(kernel_h),
        kernel_w_(kernel_w),
        stride_(stride) {}

  void forward(const float* x, float* y, Phase) override {
    std::vector<double> sums(static_cast<std::size_t>(count()));
    for_each_pair([&](std::int64_t xi, std::int64_t yi) { sums[yi] += x[xi]; });
    for (std::int64_t i = 0; i < count(); ++i) y[i] = static_cast<float>(sums[i] / (kernel_h_ * kernel_w_));
  }

  void backward_input(const float*, const float*, const float* dy, float* dx) override {
    std::vector<double> sums(static_cast<std::size_t>(tensor::element_count(in_)));
    for_each_pair([&](std::int64_t xi, std::int64_t yi) { sums[xi] += dy[yi]; });
    for (std::size_t i = 0; i < sums.size(); ++i) dx[i] = static_cast<float>(sums[i] / (kernel_h_ * kernel_w_));
  }

 private:
  /// visit(x's index, y's index) for each value of each window.
  template <class Visit>
  void for_each_pair(Visit&& visit) const {
    for (std::int64_t yi = 0; yi < count(); ++yi) {
      const std::int64_t ow = yi % out_w_, oh = yi / out_w_ % out_h_, plane = yi / out_w_ / out_h_;
      for (std::int64_t kh = 0; kh < kernel_h_; ++kh)
        for (std::int64_t kw = 0; kw < kernel_w_; ++kw)
          visit((plane * in_[2] + oh * stride_ + kh) * in_[3] + ow * stride_ + kw, yi);
    }
  }

  tensor::Shape in_;
  std::int64_t out_h_, out_w_, kernel_h_, kernel_w_, stride_;
};
}  // namespace

std::unique_ptr<Layer> make_layer(const AveragePool2d& spec, const tensor::Shape& input) {
  const auto output = output_shape(spec, input);
  return std::make_unique<AveragePoolLayer>(input, output, output[2], output[3], spec.kernel, spec.kernel, spec.stride);
}
std::unique_ptr<Layer> make_layer(const GlobalAveragePool&, const tensor::Shape& input) {
  const auto output = output_shape(GlobalAveragePool{}, input);
  return std::make_unique<AveragePoolLayer>(input, output, 1, 1, input[2], input[3], 1);
}

}  // namespace distdl::kernels::reference
