// SPDX-License-Identifier: Apache-2.0
#include <distdl/base/errors.hpp>
#include <distdl/kernels/backend.hpp>
#include <distdl/kernels/host/host_backend.hpp>
#include <distdl/kernels/host/layers.hpp>
#include <distdl/kernels/onednn/layers.hpp>
#include <distdl/kernels/onednn/operation.hpp>
#include <distdl/kernels/registry.hpp>

namespace distdl::kernels {
namespace {
using onednn::Context;
using onednn::dense_desc;
using onednn::desc_of;
using onednn::Operation;

std::string isa_name() {
  switch (dnnl::get_effective_cpu_isa()) {
    case dnnl::cpu_isa::sse41:
      return "sse41";
    case dnnl::cpu_isa::avx:
      return "avx";
    case dnnl::cpu_isa::avx2:
      return "avx2";
    case dnnl::cpu_isa::avx2_vnni:
      return "avx2_vnni";
    case dnnl::cpu_isa::avx512_core:
      return "avx512_core";
    case dnnl::cpu_isa::avx512_core_vnni:
      return "avx512_core_vnni";
    case dnnl::cpu_isa::avx512_core_bf16:
      return "avx512_core_bf16";
    case dnnl::cpu_isa::avx512_core_amx:
      return "avx512_core_amx";
    default:
      return fmt::format("isa {:#x}", static_cast<unsigned>(dnnl::get_effective_cpu_isa()));
  }
}

struct MakeLayer {
  using Made = std::unique_ptr<Layer>;
  Context& context;
  const ActivationFormat& input;
  const Noise& noise;
  Made operator()(const Linear& spec) const { return onednn::make_linear(context, spec, input); }
  Made operator()(const Conv2d& spec) const { return onednn::make_conv2d(context, spec, input); }
  Made operator()(const MaxPool2d& spec) const { return onednn::make_max_pool2d(spec, input); }
  Made operator()(const AveragePool2d& spec) const { return onednn::make_average_pool2d(spec, input); }
  Made operator()(const GlobalAveragePool&) const { return onednn::make_global_average_pool(input); }
  Made operator()(const Relu&) const { return onednn::make_relu(input); }
  Made operator()(const Gelu& spec) const { return onednn::make_gelu(context, spec, input); }
  Made operator()(const Silu&) const { return onednn::make_silu(context, input); }
  Made operator()(const GatedSilu&) const { return onednn::make_gated_silu(input.shape); }
  Made operator()(const BatchNorm& spec) const { return onednn::make_batch_norm(context, spec, input); }
  Made operator()(const LayerNorm& spec) const { return onednn::make_layer_norm(spec, input.shape); }
  Made operator()(const RmsNorm& spec) const { return onednn::make_rms_norm(spec, input.shape); }
  Made operator()(const Dropout& spec) const { return host::make_dropout(spec, input.shape, noise); }
  Made operator()(const Embedding& spec) const { return host::make_embedding(spec, input.shape); }
  Made operator()(const PositionEmbedding& spec) const { return host::make_position_embedding(spec, input.shape); }
  Made operator()(const ClassToken&) const { return host::make_class_token(input.shape); }
  Made operator()(const PixelsToSequence&) const { return host::make_pixels_to_sequence(input.shape); }
  Made operator()(const SelectPlace& spec) const { return host::make_select_place(spec, input.shape); }
  Made operator()(const Attention& spec) const { return onednn::make_attention(context, spec, input.shape); }
};

/// These take only dense input; sequences and rows are never anything else, images may be.
bool wants_dense(const LayerSpec& spec) {
  return std::holds_alternative<PixelsToSequence>(spec) || std::holds_alternative<Dropout>(spec);
}

/// Packs an image before the layer, and its gradient after it.
class OfDense : public Layer {
 public:
  OfDense(Context& context, const ActivationFormat& input, std::unique_ptr<Layer> layer)
      : layer_(std::move(layer)),
        x_(context, desc_of(input), dense_desc(input.shape)),
        dx_(context, desc_of(input), dense_desc(input.shape)) {}
  const ActivationFormat& output() const override { return layer_->output(); }
  void load_parameters(ConstPointers parameters) override { layer_->load_parameters(parameters); }
  void forward(const float* x, float* y, Phase phase) override { layer_->forward(x_.load(x), y, phase); }
  void backward_input(const float* x, const float* y, const float* dy, float* dx) override {
    layer_->backward_input(x_.loaded(x), y, dy, dx_.target(dx));
    dx_.store(dx);
  }
  void backward_weights(const float* x, const float* dy, Pointers gradients) override {
    layer_->backward_weights(x_.loaded(x), dy, gradients);
  }

 private:
  std::unique_ptr<Layer> layer_;
  onednn::Operand x_, dx_;
};

/// The same for a loss.
class LossOfDense : public Loss {
 public:
  LossOfDense(Context& context, const ActivationFormat& predictions, std::unique_ptr<Loss> loss)
      : loss_(std::move(loss)),
        x_(context, desc_of(predictions), dense_desc(predictions.shape)),
        dx_(context, desc_of(predictions), dense_desc(predictions.shape)) {}
  void forward_backward(const float* predictions, const void* targets, float scale, float* gradient,
                        float* totals) override {
    loss_->forward_backward(x_.load(predictions), targets, scale, gradient ? dx_.target(gradient) : nullptr, totals);
    if (gradient) dx_.store(gradient);
  }

 private:
  std::unique_ptr<Loss> loss_;
  onednn::Operand x_, dx_;
};

class OneDnnBackend : public HostBackend {
 public:
  explicit OneDnnBackend(int threads) : context_(threads) {}

  std::string name() const override { return "onednn"; }

  std::string description() const override {
    const dnnl_version_t* version = dnnl_version();
    return fmt::format("onednn: oneDNN {}.{}.{}, {}, {} thread{}", version->major, version->minor, version->patch,
                       isa_name(), context_.threads(), context_.threads() == 1 ? "" : "s");
  }

  void to_dense(const ActivationFormat& format, const float* from, float* to) override {
    repack(desc_of(format), dense_desc(format.shape), from, to);
  }

  void from_dense(const ActivationFormat& format, const float* from, float* to) override {
    repack(dense_desc(format.shape), desc_of(format), from, to);
  }

  bool same_layout(const ActivationFormat& one, const ActivationFormat& other) const override {
    return one.shape == other.shape && desc_of(one) == desc_of(other);
  }

  std::unique_ptr<Layer> layer(const LayerSpec& spec, const ActivationFormat& input) override {
    output_shape(spec, input.shape);  // throws if they do not fit
    context_.enter();
    try {
      if (input.layout && wants_dense(spec))
        return std::make_unique<OfDense>(context_, input,
                                         std::visit(MakeLayer{context_, dense(input.shape), noise()}, spec));
      return std::visit(MakeLayer{context_, input, noise()}, spec);
    } catch (const dnnl::error& error) {
      throw ConfigError(
          fmt::format("oneDNN cannot make a {} layer for an input of shape {} ({}); kernels.backend = "
                      "\"reference\" can",
                      kind_of(spec), tensor::to_string(input.shape), error.what()));
    }
  }

  std::unique_ptr<Loss> loss(const LossSpec& spec, const ActivationFormat& predictions) override {
    auto loss = HostBackend::loss(spec, dense(predictions.shape));
    if (!predictions.layout) return loss;
    return std::make_unique<LossOfDense>(context_, predictions, std::move(loss));
  }

 private:
  void repack(const dnnl::memory::desc& given, const dnnl::memory::desc& wanted, const float* from, float* to) {
    dnnl::reorder::primitive_desc pd(context_.engine(), given, context_.engine(), wanted, onednn::attributes());
    Operation(context_, dnnl::reorder(pd), pd.scratchpad_desc(), {{DNNL_ARG_FROM, given}, {DNNL_ARG_TO, wanted}})
        .run({{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
  }

  Context context_;
};
}  // namespace

bool onednn_is_built() {
  return true;
}

std::unique_ptr<Backend> make_onednn_backend(const Options& options) {
  return std::make_unique<OneDnnBackend>(static_cast<int>(options.threads));
}

}  // namespace distdl::kernels
