// SPDX-License-Identifier: Apache-2.0
#include <distdl/kernels/backend.hpp>
#include <distdl/kernels/host/host_backend.hpp>
#include <distdl/kernels/reference/layers.hpp>
#include <distdl/kernels/registry.hpp>

namespace distdl::kernels {
namespace {
struct MakeLayer {
  const tensor::Shape& input;
  std::unique_ptr<Layer> operator()(const Linear& spec) const { return reference::make_linear(spec, input); }
  std::unique_ptr<Layer> operator()(const Conv2d& spec) const { return reference::make_conv2d(spec, input); }
  std::unique_ptr<Layer> operator()(const MaxPool2d& spec) const { return reference::make_max_pool2d(spec, input); }
  std::unique_ptr<Layer> operator()(const Relu&) const { return reference::make_relu(input); }
  std::unique_ptr<Layer> operator()(const BatchNorm& spec) const { return reference::make_batch_norm(spec, input); }
};

class ReferenceBackend : public HostBackend {
 public:
  std::string name() const override { return "reference"; }
  std::string description() const override { return "reference: plain loops, 1 thread"; }
  std::unique_ptr<Layer> layer(const LayerSpec& spec, const ActivationFormat& input) override {
    output_shape(spec, input.shape);  // throws if they do not fit
    return std::visit(MakeLayer{input.shape}, spec);
  }
};
}  // namespace

std::unique_ptr<Backend> make_reference_backend(const Options&) {
  return std::make_unique<ReferenceBackend>();
}

}  // namespace distdl::kernels
