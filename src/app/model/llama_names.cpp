// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include <fmt/format.h>

#include <distdl/app/model/llama_names.hpp>

namespace distdl::app {
namespace {
struct OtherNames {
  std::string_view here;
  std::vector<std::string_view> there;
};

/// How a program names the layers of a gpt. Those of blocks are behind `blocks` and the number of the block.
struct Naming {
  std::string_view blocks;
  std::vector<OtherNames> outside_blocks, in_blocks;
};

const Naming& of_transformers() {
  static const Naming naming{"model.layers.",
                             {{"wte", {"model.embed_tokens"}}, {"ln_f", {"model.norm"}}, {"lm_head", {"lm_head"}}},
                             {
                                 {"ln_1", {"input_layernorm"}},
                                 {"attn.c_attn", {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"}},
                                 {"attn.c_proj", {"self_attn.o_proj"}},
                                 {"ln_2", {"post_attention_layernorm"}},
                                 {"mlp.c_fc", {"mlp.gate_proj", "mlp.up_proj"}},
                                 {"mlp.c_proj", {"mlp.down_proj"}},
                             }};
  return naming;
}

Naming of_gguf(std::vector<std::string_view> attention, std::vector<std::string_view> mlp) {
  return {"blk.",
          {{"wte", {"token_embd"}}, {"wpe", {"position_embd"}}, {"ln_f", {"output_norm"}}, {"lm_head", {"output"}}},
          {
              {"ln_1", {"attn_norm"}},
              {"attn.c_attn", std::move(attention)},
              {"attn.c_proj", {"attn_output"}},
              {"ln_2", {"ffn_norm"}},
              {"mlp.c_fc", std::move(mlp)},
              {"mlp.c_proj", {"ffn_down"}},
          }};
}

std::vector<std::string> translated(const std::vector<OtherNames>& all, std::string_view layer, std::string_view before,
                                    std::string_view after) {
  std::vector<std::string> names;
  for (const auto& [here, there] : all)
    if (here == layer)
      for (const auto name : there) names.push_back(fmt::format("{}{}{}", before, name, after));
  return names;
}

std::vector<std::string> names_by(const Naming& naming, std::string_view name) {
  const auto dot = name.rfind('.');
  if (dot == std::string_view::npos) return {};
  const auto layer = name.substr(0, dot), parameter = name.substr(dot);
  constexpr std::string_view kBlocks = "h.";
  if (!layer.starts_with(kBlocks)) return translated(naming.outside_blocks, layer, "", parameter);
  const auto end = layer.find('.', kBlocks.size());
  if (end == std::string_view::npos) return {};
  const auto block = layer.substr(kBlocks.size(), end - kBlocks.size());
  return translated(naming.in_blocks, layer.substr(end + 1), fmt::format("{}{}.", naming.blocks, block), parameter);
}
}  // namespace

std::vector<std::string> llama_names(std::string_view name) {
  return names_by(of_transformers(), name);
}

std::vector<std::string> gguf_names(std::string_view name, bool is_llama) {
  static const Naming gpt2 = of_gguf({"attn_qkv"}, {"ffn_up"}),
                      llama = of_gguf({"attn_q", "attn_k", "attn_v"}, {"ffn_gate", "ffn_up"});
  return names_by(is_llama ? llama : gpt2, name);
}

}  // namespace distdl::app
