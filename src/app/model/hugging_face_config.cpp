// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <vector>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <distdl/app/model/hugging_face_config.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/regular_file.hpp>
#include <distdl/files/file_operations.hpp>
#include <distdl/model/models.hpp>

namespace distdl::app {
namespace {
using HubJson = nlohmann::ordered_json;
using model::GeluFormula;
using model::GptVariant;
using model::Options;

/// A kind of model_type, with the values that transformers takes for members that a file leaves out.
struct HubModel {
  std::string_view name;
  GptVariant variant;
  bool qkv_bias;
  HubJson defaults;
};

const std::vector<HubModel>& hub_models() {
  const auto llama = [](std::int64_t hidden, std::int64_t kv_heads, std::int64_t context) {
    return HubJson{{"hidden_size", 4096},
                   {"num_hidden_layers", 32},
                   {"num_attention_heads", 32},
                   {"num_key_value_heads", kv_heads},
                   {"intermediate_size", hidden},
                   {"hidden_act", "silu"},
                   {"max_position_embeddings", context},
                   {"rms_norm_eps", 1e-6},
                   {"rope_theta", 1e4},
                   {"tie_word_embeddings", false}};
  };
  static const std::vector<HubModel> all{
      {"gpt2", GptVariant::gpt2, false,
       HubJson{{"n_embd", 768},
               {"n_layer", 12},
               {"n_head", 12},
               {"n_positions", 1024},
               {"activation_function", "gelu_new"},
               {"layer_norm_epsilon", 1e-5},
               {"tie_word_embeddings", true}}},
      {"llama", GptVariant::llama, false, llama(11008, 0, 2048)},
      {"mistral", GptVariant::llama, false, llama(14336, 8, std::int64_t{4096} * 32)},
      {"qwen2", GptVariant::llama, true, llama(22016, 32, 32768)},
  };
  return all;
}

/// A config.json, held against a job's keys.
class HubConfig {
 public:
  HubConfig(const HubJson& config, const HubModel& kind, const Options& job)
      : kind_(kind), config_(kind.defaults), job_(job) {
    for (const auto& [name, value] : config.items())
      if (!value.is_null()) config_[name] = value;
  }

  /// Text about all that differs; empty if nothing does.
  std::string differences() {
    expect("model_type", "model.variant", OneOf<GptVariant>(kind_.variant), job_.variant);
    if (kind_.variant == GptVariant::gpt2)
      compare_gpt2();
    else
      compare_llama();
    std::string text = fmt::format("{}", fmt::join(unknown_, "; "));
    if (!wanted_.empty())
      text += fmt::format("{}{}; set {}", text.empty() ? "" : "; ", fmt::join(said_, ", "), fmt::join(wanted_, ", "));
    return text;
  }

 private:
  void compare_gpt2() {
    const auto width = number("n_embd");
    expect("n_layer", "model.layers", number("n_layer"), job_.layers);
    expect("n_embd", "model.width", width, job_.width);
    expect("n_head", "model.heads", number("n_head"), job_.heads);
    expect("n_inner", "model.mlp_width", config_.contains("n_inner") ? number("n_inner") : 4 * width,
           model::mlp_width_of_gpt(job_));
    fits_context(number("n_positions"));
    const auto gelu = config_["activation_function"];
    if (gelu != "gelu" && gelu != "gelu_new" && gelu != "gelu_pytorch_tanh") refuse("activation_function");
    expect("activation_function", "model.gelu",
           OneOf<GeluFormula>(gelu == "gelu" ? GeluFormula::erf : GeluFormula::tanh), job_.gelu);
    expect_real("layer_norm_epsilon", "model.norm_epsilon", job_.norm_epsilon);
    expect("tie_word_embeddings", "model.tied_head", config_["tie_word_embeddings"] == true, job_.tied_head);
    refuse_unless_false("scale_attn_by_inverse_layer_idx");
    refuse_unless_false("add_cross_attention");
    if (config_.value("scale_attn_weights", HubJson(true)) != true) refuse("scale_attn_weights");
  }

  void compare_llama() {
    const auto width = number("hidden_size"), heads = number("num_attention_heads");
    const auto kv_heads = number("num_key_value_heads") > 0 ? number("num_key_value_heads") : heads;
    expect("num_hidden_layers", "model.layers", number("num_hidden_layers"), job_.layers);
    expect("hidden_size", "model.width", width, job_.width);
    expect("num_attention_heads", "model.heads", heads, job_.heads);
    expect("num_key_value_heads", "model.kv_heads", kv_heads, job_.kv_heads > 0 ? job_.kv_heads : job_.heads);
    expect("intermediate_size", "model.mlp_width", number("intermediate_size"), model::mlp_width_of_gpt(job_));
    fits_context(number("max_position_embeddings"));
    if (config_["hidden_act"] != "silu") refuse("hidden_act");
    expect_real("rms_norm_eps", "model.norm_epsilon", job_.norm_epsilon);
    expect("model_type", "model.qkv_bias", kind_.qkv_bias, job_.qkv_bias);
    expect("tie_word_embeddings", "model.tied_head", config_["tie_word_embeddings"] == true, job_.tied_head);
    compare_positions();
    if (config_.contains("head_dim") && number("head_dim") * heads != width) refuse("head_dim");
    refuse_unless_false("mlp_bias");
    refuse_unless_false("attention_bias");
    const bool slides = kind_.name == "qwen2" ? config_.value("use_sliding_window", HubJson(false)) != false
                                              : config_.contains("sliding_window");
    if (slides && number("sliding_window") < job_.context) refuse("sliding_window");
  }

  /// transformers 5 has the base and the scaling in one member, with the kind "default" for none.
  void compare_positions() {
    if (const auto& both = config_["rope_parameters"]; both.is_object() && both.contains("rope_theta"))
      config_["rope_theta"] = both["rope_theta"];
    for (const char* member : {"rope_scaling", "rope_parameters"}) {
      const auto& scaling = config_[member];
      if (scaling.is_null()) continue;
      if (!scaling.is_object() || scaling.value("rope_type", scaling.value("type", HubJson("default"))) != "default")
        refuse(member);
    }
    expect_real("rope_theta", "model.rotary_base", job_.rotary_base);
  }

  std::int64_t number(const char* member) {
    const auto& value = config_[member];
    if (value.is_number_integer()) return value.get<std::int64_t>();
    refuse(member);
    return 0;
  }

  void fits_context(std::int64_t places) {
    if (places >= job_.context) return;
    said_.push_back(fmt::format("it knows {} places (model.context is {})", places, job_.context));
    wanted_.push_back(fmt::format("model.context = {}", places));
  }

  template <class Value>
  void expect(const char* member, const char* key, const Value& there, const Value& here) {
    if (there == here) return;
    add(member, key, fmt::format("{}", there), fmt::format("{}", here));
  }
  void expect_real(const char* member, const char* key, double here) {
    const auto& value = config_[member];
    if (!value.is_number()) return refuse(member);
    const auto there = value.get<double>();
    if (std::abs(there - here) > 1e-6 * std::abs(there))
      add(member, key, fmt::format("{}", there), fmt::format("{}", here));
  }
  void add(const char* member, const char* key, const std::string& there, const std::string& here) {
    said_.push_back(fmt::format("{} is {} ({} is {})", member, config_[member].dump(), key, here));
    const bool is_text = !there.empty() && std::isalpha(static_cast<unsigned char>(there[0])) != 0 && there != "true" &&
                         there != "false";
    wanted_.push_back(is_text ? fmt::format("{} = \"{}\"", key, there) : fmt::format("{} = {}", key, there));
  }

  void refuse_unless_false(const char* member) {
    if (config_.value(member, HubJson(false)) != false) refuse(member);
  }
  void refuse(const char* member) {
    unknown_.push_back(fmt::format("{} is {}, which no model here has", member, config_[member].dump()));
  }

  const HubModel& kind_;
  HubJson config_;
  const Options& job_;
  std::vector<std::string> said_, wanted_, unknown_;
};

[[noreturn]] void refuse_file(const std::filesystem::path& file, const std::string& why) {
  throw StorageError(fmt::format("\"{}\" {}", file.string(), why), ExitCode::incompatible);
}
}  // namespace

void require_same_config(const std::filesystem::path& folder, const model::Options& options) {
  constexpr std::size_t kMost = 4 << 20;
  const auto file = folder / "config.json";
  std::error_code error;
  if (!std::filesystem::exists(file, error)) return;
  const auto config = HubJson::parse(read_regular(resolved(file), kMost), nullptr, false);
  if (!config.is_object())
    throw StorageError(fmt::format("\"{}\" is damaged: a JSON object was expected; download it again", file.string()),
                       ExitCode::corrupt);
  const auto type = config.find("model_type");
  if (type == config.end()) return;
  std::vector<std::string_view> names;
  for (const auto& kind : hub_models()) {
    names.push_back(kind.name);
    if (*type != kind.name) continue;
    if (options.name != "gpt")
      refuse_file(file,
                  fmt::format("describes a model of type {}, but the job's model.name is \"{}\"; set it to \"gpt\"",
                              kind.name, options.name));
    const auto differences = HubConfig(config, kind, options).differences();
    if (!differences.empty()) refuse_file(file, "describes another model than the job: " + differences);
    return;
  }
  refuse_file(file, fmt::format("says that model_type is {}; known are {}; ResNets and vision transformers come from "
                                "torchvision's or timm's files",
                                type->dump(), fmt::join(names, ", ")));
}

std::string hugging_face_config(const model::Options& options, std::int64_t vocabulary) {
  const bool is_llama = options.variant == GptVariant::llama;
  HubJson config = is_llama ? HubJson{{"model_type", options.qkv_bias ? "qwen2" : "llama"},
                                      {"architectures", {options.qkv_bias ? "Qwen2ForCausalLM" : "LlamaForCausalLM"}},
                                      {"hidden_size", options.width},
                                      {"num_hidden_layers", options.layers},
                                      {"num_attention_heads", options.heads},
                                      {"num_key_value_heads", options.kv_heads > 0 ? options.kv_heads : options.heads},
                                      {"intermediate_size", model::mlp_width_of_gpt(options)},
                                      {"hidden_act", "silu"},
                                      {"max_position_embeddings", options.context},
                                      {"rms_norm_eps", options.norm_epsilon},
                                      {"rope_theta", options.rotary_base}}
                            : HubJson{{"model_type", "gpt2"},
                                      {"architectures", {"GPT2LMHeadModel"}},
                                      {"n_embd", options.width},
                                      {"n_layer", options.layers},
                                      {"n_head", options.heads},
                                      {"n_inner", model::mlp_width_of_gpt(options)},
                                      {"n_positions", options.context},
                                      {"activation_function", options.gelu == GeluFormula::tanh ? "gelu_new" : "gelu"},
                                      {"layer_norm_epsilon", options.norm_epsilon},
                                      {"resid_pdrop", options.dropout},
                                      {"embd_pdrop", options.dropout},
                                      {"attn_pdrop", 0.0}};
  config["vocab_size"] = vocabulary;
  config["tie_word_embeddings"] = static_cast<bool>(options.tied_head);
  config["torch_dtype"] = "float32";
  config["bos_token_id"] = config["eos_token_id"] = nullptr;
  return config.dump(2) + "\n";
}

}  // namespace distdl::app
