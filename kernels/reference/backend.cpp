// SPDX-License-Identifier: Apache-2.0
#include <distdl/kernels/backend.hpp>
#include <distdl/kernels/host/host_backend.hpp>
#include <distdl/kernels/host/layers.hpp>
#include <distdl/kernels/reference/layers.hpp>
#include <distdl/kernels/registry/registry.hpp>

namespace distdl::kernels {
namespace {
class ReferenceBackend : public HostBackend {
 public:
  using HostBackend::HostBackend;
  std::string name() const override { return "reference"; }
  std::string description() const override { return "reference: plain loops, 1 thread" + precision_note(); }
  std::unique_ptr<Layer> layer(const LayerSpec& spec, const ActivationFormat& input) override {
    output_shape(spec, input.shape);  // throws if they do not fit
    if (auto simple = host::make_layer(spec, input, activation_type(), rng_key())) return simple;
    auto layer = std::visit([&](const auto& own) { return make(own, input.shape); }, spec);
    if (input.type == tensor::DataType::float32) return layer;
    const auto output = dense(layer->output().shape, input.type);
    return rounded(std::move(layer), input, output);
  }

 private:
  static std::unique_ptr<Layer> make(const auto& spec, const tensor::Shape& input) {
    if constexpr (requires { reference::make_layer(spec, input); })
      return reference::make_layer(spec, input);
    else
      return nullptr;  // one of host/
  }
};
}  // namespace

std::unique_ptr<Backend> make_reference_backend(const Options& options) {
  return std::make_unique<ReferenceBackend>(host_activation_type(options));
}

}  // namespace distdl::kernels
