// SPDX-License-Identifier: Apache-2.0
#include <distdl/kernels/backend.hpp>
#include <distdl/kernels/host/host_backend.hpp>
#include <distdl/kernels/host/layers.hpp>
#include <distdl/kernels/reference/layers.hpp>
#include <distdl/kernels/registry/registry.hpp>

namespace distdl::kernels {
namespace {
struct MakeLayer {
  using Made = std::unique_ptr<Layer>;
  const tensor::Shape& input;
  Made operator()(const Linear& spec) const { return reference::make_linear(spec, input); }
  Made operator()(const Conv2d& spec) const { return reference::make_conv2d(spec, input); }
  Made operator()(const MaxPool2d& spec) const { return reference::make_max_pool2d(spec, input); }
  Made operator()(const AveragePool2d& spec) const { return reference::make_average_pool2d(spec, input); }
  Made operator()(const GlobalAveragePool&) const { return reference::make_global_average_pool(input); }
  Made operator()(const Relu&) const { return reference::make_relu(input); }
  Made operator()(const Gelu& spec) const { return reference::make_gelu(spec, input); }
  Made operator()(const Silu&) const { return reference::make_silu(input); }
  Made operator()(const GatedSilu&) const { return reference::make_gated_silu(input); }
  Made operator()(const BatchNorm& spec) const { return reference::make_batch_norm(spec, input); }
  Made operator()(const LayerNorm& spec) const { return reference::make_layer_norm(spec, input); }
  Made operator()(const RmsNorm& spec) const { return reference::make_rms_norm(spec, input); }
  Made operator()(const Attention& spec) const { return reference::make_attention(spec, input); }
  Made operator()(const auto&) const { return nullptr; }  // one of host/
};

class ReferenceBackend : public HostBackend {
 public:
  using HostBackend::HostBackend;
  std::string name() const override { return "reference"; }
  std::string description() const override { return "reference: plain loops, 1 thread" + precision_note(); }
  std::unique_ptr<Layer> layer(const LayerSpec& spec, const ActivationFormat& input) override {
    output_shape(spec, input.shape);  // throws if they do not fit
    if (auto simple = host::make_layer(spec, input, activation_type(), rng_key())) return simple;
    auto layer = std::visit(MakeLayer{input.shape}, spec);
    if (input.type == tensor::DataType::float32) return layer;
    const auto output = dense(layer->output().shape, input.type);
    return rounded(std::move(layer), input, output);
  }
};
}  // namespace

std::unique_ptr<Backend> make_reference_backend(const Options& options) {
  return std::make_unique<ReferenceBackend>(host_activation_type(options));
}

}  // namespace distdl::kernels
