// SPDX-License-Identifier: Apache-2.0
// Keys and names: gguf-py/gguf/constants.py and conversion/*.py of https://github.com/ggml-org/llama.cpp
#include <algorithm>
#include <string_view>

#include <distdl/app/model/gguf_model.hpp>
#include <distdl/app/model/gguf_tokenizer.hpp>
#include <distdl/app/model/llama_names.hpp>
#include <distdl/app/model/pytorch_names.hpp>
#include <distdl/app/model/trained_model.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/model/models.hpp>

namespace distdl::app {
namespace {
using checkpoint::ExportedTensor;
using checkpoint::GgufMetadata;
using tensor::DataType;

std::uint32_t as_size(std::int64_t value) {
  return static_cast<std::uint32_t>(value);
}

std::string architecture_of(const model::Options& options) {
  if (options.variant == model::GptVariant::gpt2) return "gpt2";
  return options.qkv_bias ? "qwen2" : "llama";
}

void require_gguf_model(const model::Options& options) {
  require<UsageError>(options.name == "gpt",
                      "the model is \"{}\", which llama.cpp does not have; write it by --for onnx", options.name);
  require<UsageError>(
      options.variant == model::GptVariant::llama || options.gelu == model::GeluFormula::tanh,
      "the layers \"h.*.mlp.act\" of the model compute GELU by erf (model.gelu), but llama.cpp by tanh; "
      "write the model by --for transformers or onnx");
}

/// `type`: number of llama_ftype.
GgufMetadata sizes_of(const model::Options& options, std::int64_t vocabulary, std::uint32_t type) {
  const std::string name = architecture_of(options);
  const bool is_gpt2 = name == "gpt2";
  const std::int64_t kv_heads = options.kv_heads > 0 ? options.kv_heads : options.heads;
  GgufMetadata all{{"general.architecture", name},
                   {"general.type", std::string("model")},
                   {"general.file_type", type},
                   {"general.quantization_version", std::uint32_t{2}}};
  const auto add = [&](const char* key, checkpoint::GgufValue value) {
    all.emplace_back(name + key, std::move(value));
  };
  add(".block_count", as_size(options.layers));
  add(".context_length", as_size(options.context));
  add(".embedding_length", as_size(options.width));
  add(".feed_forward_length", as_size(model::mlp_width_of_gpt(options)));
  add(".vocab_size", as_size(vocabulary));
  add(".attention.head_count", as_size(options.heads));
  add(is_gpt2 ? ".attention.layer_norm_epsilon" : ".attention.layer_norm_rms_epsilon",
      static_cast<float>(options.norm_epsilon));
  if (is_gpt2) return all;
  add(".attention.head_count_kv", as_size(kv_heads));
  add(".rope.freq_base", static_cast<float>(options.rotary_base));
  add(".rope.dimension_count", as_size(options.width / options.heads));
  return all;
}

std::vector<ExportedTensor> gguf_tensors(const checkpoint::Summary& checkpoint, const model::Options& options,
                                         DataType matrices) {
  const auto model = model_in(checkpoint);
  const std::string architecture = architecture_of(options);
  constexpr std::string_view kPrefix = "transformer.";  // of nanoGPT
  std::vector<ExportedTensor> all;
  for (const auto& whole : pytorch_tensors(checkpoint, PytorchLayout::modules)) {
    std::string_view name = whole.name;
    if (name.starts_with(kPrefix)) name.remove_prefix(kPrefix.size());
    if (options.tied_head && name == "lm_head.weight") continue;
    for (auto& part : divided_rows(model, whole, gguf_names(name, architecture != "gpt2"))) {
      const bool turns =
          part.name.find(".attn_q.") != std::string::npos || part.name.find(".attn_k.") != std::string::npos;
      if (architecture == "llama" && turns) part.interleaved = options.width / options.heads;
      if (matrices != DataType::float32 && part.shape.size() > 1 && part.name != "position_embd.weight")
        part.rounded = matrices;
      all.push_back(std::move(part));
    }
  }
  return all;
}
}  // namespace

GgufModel gguf_model(const checkpoint::Summary& checkpoint, DataType matrices) {
  constexpr std::uint32_t kFloat32 = 0, kFloat16 = 1, kBfloat16 = 32;
  const auto options = model_options_in(checkpoint);
  require_gguf_model(options);
  const auto vocabulary = model_in(checkpoint).classes;
  GgufModel made{sizes_of(options, vocabulary,
                          matrices == DataType::float16    ? kFloat16
                          : matrices == DataType::bfloat16 ? kBfloat16
                                                           : kFloat32),
                 gguf_tensors(checkpoint, options, matrices),
                 {}};
  made.note = add_gguf_tokenizer(tokenizer_in(checkpoint), vocabulary, made.metadata);
  return made;
}

}  // namespace distdl::app
