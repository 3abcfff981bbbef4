// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <utility>

#include <fmt/ranges.h>

#include <distdl/base/errors.hpp>
#include <distdl/model/models.hpp>

namespace distdl::model {
namespace {
std::map<std::string, Describe>& models() {
  static std::map<std::string, Describe> all{{"gpt", gpt},         {"lenet", lenet},     {"mlp", mlp},
                                             {"resnet18", resnet}, {"resnet34", resnet}, {"resnet50", resnet},
                                             {"vit", vit}};
  return all;
}
}  // namespace

Description describe_model(const Options& options, const tensor::Shape& sample, std::int64_t classes) {
  const auto found = models().find(options.name);
  require(found != models().end(), "model.name is \"{}\"; known models are {}", options.name,
          fmt::join(known_models(), ", "));
  require(classes >= 2, "model \"{}\" needs at least 2 classes, but the data set has {}", options.name, classes);
  Description model = found->second(options, sample, classes);
  if (auto* entropy = std::get_if<kernels::CrossEntropy>(&model.loss))
    entropy->smoothing = static_cast<float>(options.label_smoothing);
  return model;
}

void add_model(const std::string& name, Describe describe) {
  require(models().emplace(name, std::move(describe)).second, "there is a model \"{}\" already; choose another name",
          name);
}

std::vector<std::string> known_models() {
  std::vector<std::string> names;
  for (const auto& [name, describe] : models()) names.push_back(name);
  return names;
}

void require_images(const std::string& model, const tensor::Shape& sample) {
  require(sample.size() == 3, "model \"{}\" takes images (C, H, W), but the data set has samples of shape {}", model,
          tensor::to_string(sample));
}

}  // namespace distdl::model
