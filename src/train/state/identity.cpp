// SPDX-License-Identifier: Apache-2.0
#include <fmt/ranges.h>

#include <distdl/data/packed_text.hpp>
#include <distdl/parallel/cluster.hpp>
#include <distdl/train/state/identity.hpp>
#include <distdl/train/ways.hpp>

namespace distdl::train {

const Identity& usual_properties() {
  static const Identity all = [] {
    Identity usual{{"parallel.tensor_shards", "1"},
                   {"parallel.tensor_shards.of_vocabulary", "1"},
                   {"parallel.tensor_shards.of_rows", "1"},
                   {"parallel.context_chunks", "1"},
                   {"parallel.compression", "none"},
                   {"parallel.compression_warmup_steps", "0"},
                   {"parallel.compression_of_parameters", "false"},
                   {"data.normalize", "set"},
                   {"data.crop_area", "0.08"},
                   {"data.resize", "0"},
                   {"data.upright", "false"},
                   {"data.weights", "[]"},
                   {"data.targets", "()"},
                   {"data.units", ""},
                   {"data.color_jitter", "[]"},
                   {"data.rand_augment", "0"},
                   {"data.rand_augment_magnitude", "9"},
                   {"data.random_erasing", "0"},
                   {"data.mixup", "0"},
                   {"data.cutmix", "0"}};
    model::Options model;
    describe(model, [&](const std::string& key, const auto& value, const char*) {
      for (const char* later : {"model.mlp_width", "model.norm_epsilon", "model.rotary_base", "model.qkv_bias"})
        if (key == later) usual[key] = fmt::format("{}", value);
    });
    for (const Way& way : ways()) way.leave_out({.strategy = parallel::Strategy::replicas}, usual);
    return usual;
  }();
  return all;
}

Identity identity_of(Recipe recipe, const data::Source& samples) {
  Identity identity;
  auto note = [&](const std::string& key, const auto& value, const char*) { identity[key] = fmt::format("{}", value); };
  describe(recipe.model, note);
  describe(recipe.parallel, note);
  for (const char* key :
       {"parallel.strategy", "parallel.recompute", "parallel.tensor_ranks", "parallel.context_ranks",
        "parallel.pipeline_ranks", "parallel.schedule", "parallel.stage_layers", "parallel.interleave",
        "parallel.bucket_mib", "parallel.server_steps", "parallel.server_partners", "parallel.server_pulls",
        "cluster.ps.tasks", "cluster.ps.placement", "cluster.worker.tasks", "cluster.interface"})
    identity.erase(key);  // they change no number
  const auto encoding = recipe.parallel.compression.encoding;
  for (const parallel::Encoding& each : parallel::kEncodings)
    if (each.name.value != encoding) identity.erase(each.own_key);
  if (!parallel::encoding_of(encoding).warms_up) identity["parallel.compression_warmup_steps"] = "0";
  if (!parallel::codes_changes(recipe.parallel)) identity["parallel.compression_of_parameters"] = "false";
  for (const Way& way : ways()) way.leave_out(recipe.parallel, identity);
  describe(recipe.optim, note);
  identity["kernels.precision"] = recipe.kernels.precision.name();
  identity["train.seed"] = std::to_string(recipe.train.seed);
  identity["train.epochs"] = std::to_string(recipe.train.epochs);
  identity["train.steps"] = std::to_string(recipe.train.steps);
  identity["data.crop"] = std::to_string(recipe.data.crop);
  identity["data.mirror"] = recipe.data.mirror ? "true" : "false";
  identity["data.normalize"] = recipe.data.normalize.name();
  identity["data.crop_area"] = fmt::format("{}", recipe.data.crop_area);
  identity["data.resize"] = std::to_string(recipe.data.resize);
  identity["data.upright"] = recipe.data.upright ? "true" : "false";
  identity["data.color_jitter"] = fmt::format("{}", recipe.data.color_jitter);
  identity["data.rand_augment"] = std::to_string(recipe.data.rand_augment);
  if (recipe.data.rand_augment > 0)
    identity["data.rand_augment_magnitude"] = std::to_string(recipe.data.rand_augment_magnitude);
  identity["data.random_erasing"] = fmt::format("{}", recipe.data.random_erasing);
  identity["data.mixup"] = fmt::format("{}", recipe.data.mixup);
  identity["data.cutmix"] = fmt::format("{}", recipe.data.cutmix);
  identity["data.samples"] = std::to_string(samples.samples());
  identity["data.classes"] = std::to_string(samples.classes());
  identity["data.shape"] = tensor::to_string(samples.shape());
  identity["data.weights"] = fmt::format("{}", recipe.data.weights);
  identity["data.targets"] = tensor::to_string(samples.targets());
  identity["data.units"] = samples.units();
  identity["data.digest"] = samples.digest();
  if (const auto json = samples.tokenizer(); !json.empty()) identity[data::kTokenizerState] = data::packed_text(json);
  identity["parallel.tensor_shards.of_vocabulary"] =
      recipe.model.name == "gpt" ? identity["parallel.tensor_shards"] : "1";  // older versions divided none
  identity["parallel.tensor_shards.of_rows"] =                                // nor these, for the gradients of norms
      recipe.model.name.starts_with("resnet") ? "1" : identity["parallel.tensor_shards"];
  for (const auto& [key, value] : usual_properties())
    if (const auto found = identity.find(key); found != identity.end() && found->second == value) identity.erase(found);
  return identity;
}

}  // namespace distdl::train
