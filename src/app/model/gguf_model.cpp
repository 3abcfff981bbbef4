// SPDX-License-Identifier: Apache-2.0
// Keys and names: gguf-py/gguf/constants.py and conversion/*.py of https://github.com/ggml-org/llama.cpp
#include <algorithm>
#include <array>
#include <string_view>

#include <nlohmann/json.hpp>

#include <distdl/app/model/gguf_model.hpp>
#include <distdl/app/model/llama_names.hpp>
#include <distdl/app/model/pytorch_names.hpp>
#include <distdl/app/model/trained_model.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/model/models.hpp>

namespace distdl::app {
namespace {
using checkpoint::ExportedTensor;
using checkpoint::GgufMetadata;
using GgufJson = nlohmann::json;
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

/// The names that llama.cpp has for the expressions by which texts are split.
constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kSplits{
    {{"GPT-2", "gpt-2"}, {"Llama 3", "llama-bpe"}, {"Qwen", "qwen2"}}};

std::string merge_text(const GgufJson& merge) {
  return merge.is_string() ? merge.get<std::string>()
                           : merge.at(0).get<std::string>() + ' ' + merge.at(1).get<std::string>();
}

/// Tokens in the letters of byte-level BPE, as the tokenizer.json has them. Rows of the table beyond are unused.
void add_tokenizer(const tokenizer::Tokenizer& tokenizer, std::int64_t vocabulary, GgufMetadata& all) {
  constexpr std::int32_t kNormal = 1, kControl = 3, kUserDefined = 4, kUnused = 5;
  const GgufJson document = GgufJson::parse(tokenizer.json());
  const auto count = static_cast<std::size_t>(std::max(vocabulary, tokenizer.vocabulary()));
  std::vector<std::string> tokens(count), pairs;
  std::vector<std::int32_t> kinds(count, kUnused);
  for (std::size_t i = 0; i < count; ++i) tokens[i] = fmt::format("[PAD{}]", i);
  const auto take = [&](std::size_t id, const std::string& token, std::int32_t kind) {
    tokens[id] = token;
    kinds[id] = kind;
  };
  for (const auto& [token, id] : document.at("model").at("vocab").items()) take(id.get<std::size_t>(), token, kNormal);
  for (const auto& added : document.value("added_tokens", GgufJson::array()))
    take(added.at("id").get<std::size_t>(), added.at("content").get<std::string>(),
         added.value("special", false) ? kControl : kUserDefined);
  for (const auto& merge : document.at("model").at("merges")) pairs.push_back(merge_text(merge));
  const auto* const split = std::ranges::find(kSplits, tokenizer.split(), [](const auto& each) { return each.first; });
  require<InternalError>(split != kSplits.end(), "llama.cpp's name of the split of {} is unknown", tokenizer.split());
  all.insert(all.end(), {{"tokenizer.ggml.model", std::string("gpt2")},
                         {"tokenizer.ggml.pre", std::string(split->second)},
                         {"tokenizer.ggml.tokens", std::move(tokens)},
                         {"tokenizer.ggml.token_type", std::move(kinds)},
                         {"tokenizer.ggml.merges", std::move(pairs)},
                         {"tokenizer.ggml.add_bos_token", false}});
  if (const auto end = tokenizer.end_of_text())
    for (const char* key : {"tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id"}) all.emplace_back(key, *end);
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
                 gguf_tensors(checkpoint, options, matrices)};
  if (const auto tokenizer = tokenizer_in(checkpoint))
    add_tokenizer(*tokenizer, vocabulary, made.metadata);
  else
    made.metadata.emplace_back("tokenizer.ggml.model", std::string("none"));
  return made;
}

}  // namespace distdl::app
