// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <utility>

#include <fmt/ranges.h>

#include <distdl/base/errors.hpp>
#include <distdl/model/models.hpp>

namespace distdl::model {
namespace {
std::map<std::string, Describe>& models() {
  static std::map<std::string, Describe> all{{"fcn", fcn},         {"gpt", gpt},         {"lenet", lenet},
                                             {"mlp", mlp},         {"resnet18", resnet}, {"resnet34", resnet},
                                             {"resnet50", resnet}, {"vit", vit}};
  return all;
}

/// Sizes are multiplied with each other and a few small numbers; so bounded, the products of two are numbers still.
void check_size(const std::string& key, std::int64_t value, std::int64_t most = std::int64_t{1} << 28) {
  require(value >= 0 && value <= most, "{} is {}, but must be between 0 and {}", key, value, most);
}
}  // namespace

void check(const Options& options) {
  constexpr std::int64_t kMostLayers = 1 << 16;
  require(options.label_smoothing >= 0 && options.label_smoothing < 1,
          "model.label_smoothing is {}, but must be in [0, 1)", options.label_smoothing);
  require(options.dropout >= 0 && options.dropout < 1, "model.dropout is {}, but must be in [0, 1)", options.dropout);
  check_size("model.layers", options.layers, kMostLayers);
  require(options.hidden.size() <= std::size_t{kMostLayers}, "model.hidden has {} layers, but at most {} are possible",
          options.hidden.size(), kMostLayers);
  for (std::size_t i = 0; i < options.hidden.size(); ++i)
    check_size(fmt::format("model.hidden[{}]", i), options.hidden[i]);
  check_size("model.width", options.width);
  check_size("model.heads", options.heads);
  check_size("model.kv_heads", options.kv_heads);
  check_size("model.context", options.context);
  check_size("model.vocabulary", options.vocabulary);
  check_size("model.patch", options.patch);
  check_size("model.mlp_width", options.mlp_width);
  require(options.norm_epsilon > 0 && options.norm_epsilon <= 1, "model.norm_epsilon is {}, but must be in (0, 1]",
          options.norm_epsilon);
  require(options.rotary_base > 1 && options.rotary_base <= 1e12,
          "model.rotary_base is {}, but must be above 1 and at most 1e12", options.rotary_base);
}

namespace {
/// In any model the last layer's outputs are the numbers to predict.
void predict_numbers(Description& model, const Options& options, const tensor::Shape& targets) {
  require(options.name != "gpt", "model \"gpt\" takes tokens, but the data set has numbers to predict");
  require(options.label_smoothing == 0,
          "model.label_smoothing is {}, but the data set has numbers to predict, and no labels; set it to 0",
          options.label_smoothing);
  model.loss = kernels::MeanSquaredError{};
  const tensor::Shape output = wire(model, 1).layers.back().output;
  const bool has_same_shape = output.size() == 2 || tensor::Shape(output.begin() + 1, output.end()) == targets;
  require(has_same_shape && tensor::element_count(output) == tensor::element_count(targets),
          "model \"{}\" predicts {} numbers from a sample, but the data set has targets of the shape {}", model.name,
          tensor::to_string(tensor::Shape(output.begin() + 1, output.end())), tensor::to_string(targets));
}
}  // namespace

Description describe_model(const Options& options, const tensor::Shape& sample, std::int64_t classes,
                           const tensor::Shape& targets) {
  check(options);
  const auto found = models().find(options.name);
  require(found != models().end(), "model.name is \"{}\", but must be one of {}", options.name,
          fmt::join(known_models(), ", "));
  require(classes >= 2 || !targets.empty(), "model \"{}\" needs at least 2 classes, but the data set has {}",
          options.name, classes);
  Description model = found->second(options, sample, classes);
  if (auto* entropy = std::get_if<kernels::CrossEntropy>(&model.loss))
    entropy->smoothing = static_cast<float>(options.label_smoothing);
  if (!targets.empty()) predict_numbers(model, options, targets);
  return model;
}

bool tells_classes(const Description& model) {
  return std::holds_alternative<kernels::CrossEntropy>(model.loss);
}

void add_model(const std::string& name, Describe describe) {
  require(models().emplace(name, std::move(describe)).second, "there is already a model \"{}\"; choose another name",
          name);
}

std::vector<std::string> known_models() {
  std::vector<std::string> names;
  for (const auto& [name, describe] : models()) names.push_back(name);
  return names;
}

void require_images(const std::string& model, const tensor::Shape& sample) {
  require(sample.size() == 3, "model \"{}\" takes images (C, H, W), but the data set has samples of shape {}{}", model,
          tensor::to_string(sample),
          sample.size() == 4 ? ": there are no layers of three dimensions; model.name = \"mlp\" takes them" : "");
}

}  // namespace distdl::model
