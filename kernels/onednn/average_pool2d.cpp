// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <distdl/kernels/onednn/layers.hpp>
#include <distdl/kernels/onednn/operation.hpp>
#include <distdl/kernels/onednn/planes.hpp>

namespace distdl::kernels::onednn {
namespace {
class AveragePool2dLayer : public FloatLayer {
 public:
  AveragePool2dLayer(const AveragePool2d& spec, const ActivationFormat& input)
      : spec_(spec), in_(planes_of(input)), out_(in_) {
    const tensor::Shape shape = output_shape(spec, input.shape);
    output_ = format_of(shape, in_);
    out_.height = shape[2];
    out_.width = shape[3];
  }

  const ActivationFormat& output() const override { return output_; }
  bool backward_reads_output() const override { return false; }
  void load_parameters(ConstPointers) override {}
  void backward_weights(const float*, const float*, Pointers) override {}

  void forward(const float* __restrict x, float* __restrict y, Phase) override {
    std::fill_n(y, out_.count * out_.size(), 0.0f);
    for_each_pair([&](std::int64_t from, std::int64_t to) {
      for (std::int64_t i = 0; i < in_.lanes; ++i) y[to + i] += x[from + i] * part();
    });
  }
  void backward_input(const float*, const float*, const float* __restrict dy, float* __restrict dx) override {
    std::fill_n(dx, in_.count * in_.size(), 0.0f);
    for_each_pair([&](std::int64_t to, std::int64_t from) {
      for (std::int64_t i = 0; i < in_.lanes; ++i) dx[to + i] += dy[from + i] * part();
    });
  }

 private:
  float part() const { return 1.0f / static_cast<float>(spec_.kernel * spec_.kernel); }
  /// visit(index in x, index in y), for the first lane.
  template <class Visit>
  void for_each_pair(Visit&& visit) const {
    for (std::int64_t pixel = 0; pixel < out_.count * out_.height * out_.width; ++pixel) {
      const std::int64_t ow = pixel % out_.width, oh = pixel / out_.width % out_.height;
      const std::int64_t plane = pixel / out_.width / out_.height;
      for (std::int64_t kh = 0; kh < spec_.kernel; ++kh)
        for (std::int64_t kw = 0; kw < spec_.kernel; ++kw)
          visit(plane * in_.size() + ((oh * spec_.stride + kh) * in_.width + ow * spec_.stride + kw) * in_.lanes,
                pixel * out_.lanes);
    }
  }

  AveragePool2d spec_;
  Planes in_, out_;
  ActivationFormat output_;
};

/// To dense (N, C), whatever format the images have.
class GlobalAveragePoolLayer : public FloatLayer {
 public:
  explicit GlobalAveragePoolLayer(const ActivationFormat& input)
      : in_(planes_of(input)),
        output_(dense(output_shape(GlobalAveragePool{}, input.shape))),
        channels_(input.shape[1]),
        blocks_(in_.count / input.shape[0]) {}

  const ActivationFormat& output() const override { return output_; }
  bool backward_reads_output() const override { return false; }
  void load_parameters(ConstPointers) override {}
  void backward_weights(const float*, const float*, Pointers) override {}

  void forward(const float* x, float* y, Phase) override {
    for_each_plane([&](std::int64_t plane, std::int64_t to, std::int64_t lanes) {
      for (std::int64_t i = 0; i < lanes; ++i) {
        double sum = 0;
        for (std::int64_t pixel = 0; pixel < pixels(); ++pixel) sum += x[plane + pixel * in_.lanes + i];
        y[to + i] = static_cast<float>(sum / static_cast<double>(pixels()));
      }
    });
  }
  void backward_input(const float*, const float*, const float* dy, float* dx) override {
    for_each_plane([&](std::int64_t plane, std::int64_t from, std::int64_t lanes) {
      for (std::int64_t pixel = 0; pixel < pixels(); ++pixel)
        for (std::int64_t i = 0; i < in_.lanes; ++i)
          dx[plane + pixel * in_.lanes + i] = i < lanes ? dy[from + i] / static_cast<float>(pixels()) : 0.0f;
    });
  }

 private:
  std::int64_t pixels() const { return in_.height * in_.width; }
  /// visit(index of a plane, index of its first channel in the output, channels in it)
  template <class Visit>
  void for_each_plane(Visit&& visit) const {
    for (std::int64_t plane = 0; plane < in_.count; ++plane) {
      const std::int64_t first = plane % blocks_ * in_.lanes;
      visit(plane * in_.size(), plane / blocks_ * channels_ + first, std::min(in_.lanes, channels_ - first));
    }
  }

  Planes in_;
  ActivationFormat output_;
  std::int64_t channels_, blocks_;  // blocks of channels per image
};
}  // namespace

std::unique_ptr<Layer> make_layer(Context&, const AveragePool2d& spec, const ActivationFormat& input) {
  return std::make_unique<AveragePool2dLayer>(spec, input);
}
std::unique_ptr<Layer> make_layer(Context&, const GlobalAveragePool&, const ActivationFormat& input) {
  return std::make_unique<GlobalAveragePoolLayer>(input);
}

}  // namespace distdl::kernels::onednn
