// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include <distdl/kernels/cuda/layers/adapted.hpp>
#include <distdl/kernels/cuda/layers/image_layout.hpp>

namespace distdl::kernels::cuda {
namespace {
bool is_same(const ActivationFormat& one, const ActivationFormat& other) {
  return one.type == other.type && has_channels_last(one) == has_channels_last(other);
}

/// An activation on its way between two formats.
class Passage {
 public:
  Passage(Device& device, const ActivationFormat& outer, const ActivationFormat& inner, Workspace workspace)
      : device_(device), outer_(outer), inner_(inner), workspace_(workspace) {
    if (converts()) device.reserve(workspace, inner.bytes);
  }
  bool converts() const { return !is_same(outer_, inner_); }
  const void* in(const void* given) const {
    if (!converts()) return given;
    rearrange(device_, outer_, given, inner_, device_.workspace(workspace_));
    return device_.workspace(workspace_);
  }
  /// Where the layer is to write what out() then brings to `wanted`.
  void* target(void* wanted) const { return converts() ? device_.workspace(workspace_) : wanted; }
  void out(void* wanted) const {
    if (converts()) rearrange(device_, inner_, device_.workspace(workspace_), outer_, wanted);
  }

 private:
  Device& device_;
  ActivationFormat outer_, inner_;
  Workspace workspace_;
};

class AdaptedLayer : public Layer {
 public:
  AdaptedLayer(SharedDevice device, std::unique_ptr<Layer> layer, const ActivationFormat& layer_input,
               const ActivationFormat& input, const ActivationFormat& output)
      : device_(std::move(device)),
        layer_(std::move(layer)),
        output_(output),
        x_(*device_, input, layer_input, Workspace::x),
        y_(*device_, output, layer_->output(), Workspace::y),
        dy_(*device_, output, layer_->output(), Workspace::dy),
        dx_(*device_, input, layer_input, Workspace::dx) {}

  const ActivationFormat& output() const override { return output_; }
  void load_parameters(ConstPointers parameters) override { layer_->load_parameters(parameters); }
  bool backward_reads_output() const override { return layer_->backward_reads_output(); }

  Fusion fuse(const LayerSpec& next, bool in_place) override {
    return y_.converts() ? Fusion::none : layer_->fuse(next, in_place);
  }
  void forward_fused(const void* x, void* y, void* next_y, Phase phase) override {
    layer_->forward_fused(x_.in(x), y, next_y, phase);
  }

  void forward(const void* x, void* y, Phase phase) override {
    layer_->forward(x_.in(x), y_.target(y), phase);
    y_.out(y);
  }
  void backward_input(const void* x, const void* y, const void* dy, void* dx) override {
    const void* const own_y = layer_->backward_reads_output() ? y_.in(y) : nullptr;
    layer_->backward_input(x_.in(x), own_y, dy_.in(dy), dx_.target(dx));
    dx_.out(dx);
  }
  void backward_weights(const void* x, const void* dy, Pointers gradients) override {
    layer_->backward_weights(x_.in(x), dy_.in(dy), gradients);
  }

 private:
  SharedDevice device_;
  std::unique_ptr<Layer> layer_;
  ActivationFormat output_;
  Passage x_, y_, dy_, dx_;
};

class AdaptedLoss : public Loss {
 public:
  AdaptedLoss(SharedDevice device, std::unique_ptr<Loss> loss, const ActivationFormat& loss_input,
              const ActivationFormat& predictions)
      : device_(std::move(device)),
        loss_(std::move(loss)),
        x_(*device_, predictions, loss_input, Workspace::x),
        dx_(*device_, predictions, loss_input, Workspace::dx) {}
  void forward_backward(const void* predictions, const void* targets, float scale, void* gradient,
                        float* totals) override {
    loss_->forward_backward(x_.in(predictions), targets, scale, gradient ? dx_.target(gradient) : nullptr, totals);
    if (gradient) dx_.out(gradient);
  }

 private:
  SharedDevice device_;
  std::unique_ptr<Loss> loss_;
  Passage x_, dx_;
};
}  // namespace

std::unique_ptr<Layer> adapted(SharedDevice device, std::unique_ptr<Layer> layer, const ActivationFormat& layer_input,
                               const ActivationFormat& input, const ActivationFormat& output) {
  if (is_same(layer_input, input) && is_same(layer->output(), output)) return layer;
  return std::make_unique<AdaptedLayer>(std::move(device), std::move(layer), layer_input, input, output);
}

std::unique_ptr<Loss> adapted(SharedDevice device, std::unique_ptr<Loss> loss, const ActivationFormat& loss_input,
                              const ActivationFormat& predictions) {
  if (is_same(loss_input, predictions)) return loss;
  return std::make_unique<AdaptedLoss>(std::move(device), std::move(loss), loss_input, predictions);
}

}  // namespace distdl::kernels::cuda
