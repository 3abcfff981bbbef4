// SPDX-License-Identifier: Apache-2.0
#include <distdl/base/errors.hpp>
#include <distdl/kernels/backend.hpp>
#include <distdl/kernels/host/host_backend.hpp>
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
  Context& context;
  const ActivationFormat& input;
  std::unique_ptr<Layer> operator()(const Linear& spec) const { return onednn::make_linear(context, spec, input); }
  std::unique_ptr<Layer> operator()(const Conv2d& spec) const { return onednn::make_conv2d(context, spec, input); }
  std::unique_ptr<Layer> operator()(const MaxPool2d& spec) const { return onednn::make_max_pool2d(spec, input); }
  std::unique_ptr<Layer> operator()(const Relu&) const { return onednn::make_relu(input); }
  std::unique_ptr<Layer> operator()(const BatchNorm& spec) const {
    return onednn::make_batch_norm(context, spec, input);
  }
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

  std::unique_ptr<Layer> layer(const LayerSpec& spec, const ActivationFormat& input) override {
    output_shape(spec, input.shape);  // throws if they do not fit
    context_.enter();
    try {
      return std::visit(MakeLayer{context_, input}, spec);
    } catch (const dnnl::error& error) {
      throw ConfigError(
          fmt::format("oneDNN cannot make a {} layer for an input of shape {} ({}); kernels.backend = "
                      "\"reference\" can",
                      kind_of(spec), tensor::to_string(input.shape), error.what()));
    }
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
