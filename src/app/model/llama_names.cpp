// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <distdl/app/model/llama_names.hpp>

namespace distdl::app {
namespace {
struct LlamaNames {
  std::string_view here;
  std::vector<std::string_view> there;
};

const std::vector<LlamaNames>& outside_blocks() {
  static const std::vector<LlamaNames> names{
      {"wte", {"model.embed_tokens"}}, {"ln_f", {"model.norm"}}, {"lm_head", {"lm_head"}}};
  return names;
}

const std::vector<LlamaNames>& in_blocks() {
  static const std::vector<LlamaNames> names{
      {"ln_1", {"input_layernorm"}},
      {"attn.c_attn", {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"}},
      {"attn.c_proj", {"self_attn.o_proj"}},
      {"ln_2", {"post_attention_layernorm"}},
      {"mlp.c_fc", {"mlp.gate_proj", "mlp.up_proj"}},
      {"mlp.c_proj", {"mlp.down_proj"}},
  };
  return names;
}

std::vector<std::string> translated(const std::vector<LlamaNames>& all, std::string_view layer, std::string_view before,
                                    std::string_view after) {
  std::vector<std::string> names;
  for (const auto& [here, there] : all)
    if (here == layer)
      for (const auto name : there) names.push_back(fmt::format("{}{}{}", before, name, after));
  return names;
}
}  // namespace

std::vector<std::string> llama_names(std::string_view name) {
  const auto dot = name.rfind('.');
  if (dot == std::string_view::npos) return {};
  const auto layer = name.substr(0, dot), parameter = name.substr(dot);
  constexpr std::string_view kBlocks = "h.";
  if (!layer.starts_with(kBlocks)) return translated(outside_blocks(), layer, "", parameter);
  const auto end = layer.find('.', kBlocks.size());
  if (end == std::string_view::npos) return {};
  const auto block = layer.substr(kBlocks.size(), end - kBlocks.size());
  return translated(in_blocks(), layer.substr(end + 1), fmt::format("model.layers.{}.", block), parameter);
}

}  // namespace distdl::app
