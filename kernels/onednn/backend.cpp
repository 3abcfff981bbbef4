// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <bit>
#include <new>

#include <distdl/base/errors.hpp>
#include <distdl/kernels/backend.hpp>
#include <distdl/kernels/host/host_backend.hpp>
#include <distdl/kernels/host/layers.hpp>
#include <distdl/kernels/onednn/bfloat16.hpp>
#include <distdl/kernels/onednn/layers.hpp>
#include <distdl/kernels/onednn/operation.hpp>
#include <distdl/kernels/onednn/versions.hpp>
#include <distdl/kernels/options.hpp>
#include <distdl/kernels/registry/registry.hpp>

namespace distdl::kernels {
namespace {
using onednn::Context;
using onednn::dense_desc;
using onednn::desc_of;
using onednn::Operation;
using onednn::SixteenBits;
using onednn::with_type;
using tensor::DataType;

#if defined(__aarch64__)
/// oneDNN's headers do not name its numbers for Arm: each instruction set has the bits of those that it includes.
std::string isa_name() {
  constexpr std::array kNames{"none", "asimd", "sve_128", "sve_256", "sve_384", "sve_512"};
  const auto isa = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  const auto widest = static_cast<std::size_t>(std::bit_width(isa));
  return widest < kNames.size() ? kNames[widest] : fmt::format("isa {:#x}", isa);
}
#else
std::string isa_name() {
  const auto isa = dnnl::get_effective_cpu_isa();
  for (const auto& [newer, name] : onednn::kMoreIsas)
    if (isa == newer) return name;
  switch (isa) {
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
      return fmt::format("isa {:#x}", static_cast<unsigned>(isa));
  }
}
#endif

/// Has a layer in this folder; else it is one of host/.
template <class Spec>
concept Native = requires(Context& context, const Spec& spec, const ActivationFormat& input) {
  onednn::make_layer(context, spec, input);
};

template <class Spec>
std::unique_ptr<Layer> make_onednn_layer(Context& context, const Spec& spec, const ActivationFormat& input) {
  if constexpr (Native<Spec>)
    return onednn::make_layer(context, spec, input);
  else
    return nullptr;
}

template <class Spec>
constexpr SixteenBits sixteen_bits_of(const Spec& /*spec*/) {
  return Native<Spec> ? onednn::kSixteenBits<Spec> : SixteenBits::dense;
}

/// Packs an image before the layer, and its gradient after it.
class OfDense : public Layer {
 public:
  OfDense(Context& context, const ActivationFormat& input, std::unique_ptr<Layer> layer)
      : layer_(std::move(layer)),
        x_(context, desc_of(input), dense_desc(input.shape, input.type)),
        dx_(context, desc_of(input), dense_desc(input.shape, input.type)) {}
  const ActivationFormat& output() const override { return layer_->output(); }
  void load_parameters(ConstPointers parameters) override { layer_->load_parameters(parameters); }
  void forward(const void* x, void* y, Phase phase) override { layer_->forward(x_.load(x), y, phase); }
  void backward_input(const void* x, const void* y, const void* dy, void* dx) override {
    layer_->backward_input(x_.loaded(x), y, dy, dx_.target(dx));
    dx_.store(dx);
  }
  void backward_weights(const void* x, const void* dy, Pointers gradients) override {
    layer_->backward_weights(x_.loaded(x), dy, gradients);
  }

 private:
  std::unique_ptr<Layer> layer_;
  onednn::Operand x_, dx_;
};

/// A loss of dense floats.
class LossOfDense : public Loss {
 public:
  LossOfDense(Backend& backend, const ActivationFormat& predictions, std::unique_ptr<Loss> loss)
      : backend_(backend),
        predictions_(predictions),
        loss_(std::move(loss)),
        x_(tensor::allocate_host(dense(predictions.shape).bytes)),
        dx_(tensor::allocate_host(x_.bytes())) {}
  void forward_backward(const void* predictions, const void* targets, float scale, void* gradient,
                        float* totals) override {
    backend_.to_dense(predictions_, predictions, x_.as<float>().data());
    loss_->forward_backward(x_.data(), targets, scale, gradient ? dx_.data() : nullptr, totals);
    if (gradient) backend_.from_dense(predictions_, dx_.as<float>().data(), gradient);
  }

 private:
  Backend& backend_;
  ActivationFormat predictions_;
  std::unique_ptr<Loss> loss_;
  tensor::Buffer x_, dx_;
};

class OneDnnBackend : public HostBackend {
 public:
  OneDnnBackend(tensor::DataType type, int threads) : HostBackend(type), context_(threads) {}

  std::string name() const override { return "onednn"; }

  std::string description() const override {
    const dnnl_version_t* version = dnnl_version();
    const bool has_floats = activation_type() == DataType::float32;
    return fmt::format("onednn: oneDNN {}.{}.{}{}, {}, {} thread{}{}{}", version->major, version->minor, version->patch,
                       has_floats ? " + Winograd of distdl" : "", isa_name(), context_.threads(),
                       context_.threads() == 1 ? "" : "s", precision_note(),
                       activation_type() == DataType::bfloat16 && !onednn::has_fast_bfloat16() ? " by floats" : "");
  }

  void to_dense(const ActivationFormat& format, const void* from, float* to) override {
    if (!format.layout) return HostBackend::to_dense(format, from, to);
    const auto desc = desc_of(with_type(format, DataType::float32));
    if (format.type == DataType::float32) return repack(desc, dense_desc(format.shape), from, to);
    void* const wide = wide_copy(format);
    convert(format.type, from, DataType::float32, wide, format.elements());
    repack(desc, dense_desc(format.shape), wide, to);
  }

  void from_dense(const ActivationFormat& format, const float* from, void* to) override {
    if (!format.layout) return HostBackend::from_dense(format, from, to);
    void* const wide = format.type == DataType::float32 ? to : wide_copy(format);
    repack(dense_desc(format.shape), desc_of(with_type(format, DataType::float32)), from, wide);
    if (wide != to) convert(DataType::float32, wide, format.type, to, format.elements());
  }

  void sum(const ActivationFormat& format, std::span<void* const> addends) override {
    const auto parts = static_cast<std::size_t>(context_.threads());
    context_.enter();
#pragma omp parallel for schedule(static) if (parts > 1)
    for (std::size_t part = 0; part < parts; ++part)
      sum_elements(format.type, addends, format.elements() * part / parts, format.elements() * (part + 1) / parts);
  }

  bool same_layout(const ActivationFormat& one, const ActivationFormat& other) const override {
    return onednn::same_layout(one, other);
  }

  std::unique_ptr<Layer> layer(const LayerSpec& spec, const ActivationFormat& input) override {
    output_shape(spec, input.shape);  // throws if they do not fit
    context_.enter();
    try {
      if (is_native(spec, input)) return make(spec, input);
      auto layer = make(spec, with_type(input, DataType::float32));
      const auto output = with_type(layer->output(), input.type);
      return rounded(std::move(layer), input, output);
    } catch (const dnnl::error& error) {
      if (error.status == dnnl_out_of_memory) throw std::bad_alloc();
      throw ConfigError(
          fmt::format("oneDNN cannot create a {} layer for an input of shape {} ({}); kernels.backend = "
                      "\"reference\" can",
                      kind_of(spec), tensor::to_string(input.shape), error.what()));
    }
  }

  std::unique_ptr<Loss> loss(const LossSpec& spec, const ActivationFormat& predictions) override {
    if (!predictions.layout) return HostBackend::loss(spec, predictions);
    return std::make_unique<LossOfDense>(*this, predictions, HostBackend::loss(spec, dense(predictions.shape)));
  }

 private:
  /// Whether there is a layer for input of this type; else one of floats serves.
  static bool is_native(const LayerSpec& spec, const ActivationFormat& input) {
    if (input.type == DataType::float32 || input.type == DataType::int32) return true;
    const bool is_bfloat16 = input.type == DataType::bfloat16;
    switch (std::visit([](const auto& own) { return sixteen_bits_of(own); }, spec)) {
      case SixteenBits::none:
        return false;
      case SixteenBits::bfloat16:
        return is_bfloat16 && onednn::has_bfloat16();
      case SixteenBits::fast_bfloat16:
        return is_bfloat16 && onednn::has_fast_bfloat16();
      case SixteenBits::dense:
        return !input.layout;
      case SixteenBits::all:
        return true;
    }
    return false;
  }

  std::unique_ptr<Layer> make(const LayerSpec& spec, const ActivationFormat& input) {
    const auto output = input.type == DataType::int32 ? activation_type() : input.type;
    auto simple = host::make_layer(spec, dense(input.shape, input.type), output, rng_key());
    if (!simple) return std::visit([&](const auto& own) { return make_onednn_layer(context_, own, input); }, spec);
    if (!input.layout) return simple;
    return std::make_unique<OfDense>(context_, input, std::move(simple));
  }

  void repack(const dnnl::memory::desc& given, const dnnl::memory::desc& wanted, const void* from, void* to) {
    dnnl::reorder::primitive_desc pd(context_.engine(), given, context_.engine(), wanted, onednn::attributes());
    Operation(context_, dnnl::reorder(pd), pd.scratchpad_desc(), {{DNNL_ARG_FROM, given}, {DNNL_ARG_TO, wanted}})
        .run({{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
  }

  void* wide_copy(const ActivationFormat& format) {
    const std::size_t bytes = format.elements() * sizeof(float);
    if (wide_.bytes() < bytes) wide_ = tensor::allocate_host(bytes);
    return wide_.data();
  }

  Context context_;
  tensor::Buffer wide_;  // once it was needed
};
}  // namespace

bool onednn_is_built() {
  return true;
}

std::unique_ptr<Backend> make_onednn_backend(const Options& options) {
  return std::make_unique<OneDnnBackend>(host_activation_type(options), static_cast<int>(options.threads));
}

}  // namespace distdl::kernels
