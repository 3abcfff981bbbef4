// SPDX-License-Identifier: Apache-2.0
// The other half of torch_test.py: trains small models and writes down from what, on what, and how the loss went.
// usage: curve_driver BACKEND FOLDER, which holds cases.json. For the case NAME it writes, as they lie in memory,
//   NAME.weights  the parameter arena at the start
//   NAME.batches  for each step the samples, then the targets
//   NAME.json     where each tensor lies in the arena, the loss of each step
#include <array>
#include <bit>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <distdl/base/errors.hpp>
#include <distdl/base/philox.hpp>
#include <distdl/kernels/device_value.hpp>
#include <distdl/kernels/options.hpp>
#include <distdl/model/models.hpp>
#include <distdl/model/network.hpp>
#include <distdl/model/tensor_shards.hpp>

namespace distdl::model {
namespace {
using nlohmann::json;
constexpr float kCalm = 0.1f;
using Words = std::vector<std::uint32_t>;  // floats or int32, bit by bit

Options options_from(const json& given) {
  Options options;
  describe(options, [&](const std::string& key, auto& value, const char*) {
    auto found = given.find(key.substr(key.find('.') + 1));
    if (found == given.end()) return;
    if constexpr (requires { value.name(); })
      value = found->template get<std::string>();
    else
      found->get_to(value);
  });
  return options;
}

Description model_from(const json& given) {
  Description model = describe_model(options_from(given.at("model")), given.at("sample").get<tensor::Shape>(),
                                     given.at("classes").get<std::int64_t>());
  if (given.value("squared_error", false)) model.loss = kernels::MeanSquaredError{};
  return model;
}

class Curve {
 public:
  Curve(kernels::Backend& backend, const json& given)
      : backend_(backend),
        given_(given),
        samples_(given.at("batch")),
        whole_(tensors_of(model_from(given))),
        model_(divide(model_from(given), given.value("tensor_shards", 1))),
        tensors_(tensors_of(model_)),
        network_(backend, model_, tensors_, samples_),
        parameters_(backend.allocate(tensors_.layout.size() * sizeof(float))),
        momentum_(backend.allocate(parameters_.bytes())),
        gradients_(backend.allocate(network_.gradient_count() * sizeof(float))) {}

  void write(const std::filesystem::path& folder) {
    const std::string name = given_.at("name");
    const std::vector<float> start = start_values(whole_), parts = start_values(tensors_);
    backend_.copy_from_host(parameters_.data(), parts.data(), parameters_.bytes());
    std::ofstream weights(folder / (name + ".weights"), std::ios::binary);
    put(weights, start);
    std::ofstream batches(folder / (name + ".batches"), std::ios::binary);
    json result{{"losses", json::array()}, {"tensors", json::array()}};
    for (const auto& view : whole_.layout.tensors())
      result["tensors"].push_back({{"name", view.name}, {"offset", view.offset}, {"shape", view.shape}});
    for (std::uint64_t step = 0; step < given_.at("steps").get<std::uint64_t>(); ++step)
      result["losses"].push_back(train(step, batches));
    std::ofstream(folder / (name + ".json")) << result;
    require<StorageError>(weights.flush().good() && batches.flush().good(), "cannot write to \"{}\"", folder.string());
  }

 private:
  template <class T>
  static void put(std::ofstream& file, const std::vector<T>& values) {
    file.write(reinterpret_cast<const char*>(values.data()), static_cast<std::streamsize>(values.size() * sizeof(T)));
  }
  float* floats(const tensor::Buffer& buffer) const { return static_cast<float*>(buffer.data()); }

  static std::uint32_t value(std::uint64_t stream, std::uint64_t i) {
    return std::bit_cast<std::uint32_t>(2 * Philox::uniform(Philox::block(9, stream, i)[0]) - 1);
  }
  std::uint32_t number(std::uint64_t stream, std::uint64_t i) const {
    return Philox::block(9, stream, i)[0] % static_cast<std::uint32_t>(model_.classes);
  }

  Words samples(std::uint64_t stream) const {
    Words words(static_cast<std::size_t>(samples_ * tensor::element_count(model_.sample)));
    for (std::size_t i = 0; i < words.size(); ++i)
      words[i] = model_.sample.size() == 1 ? number(stream, i) : value(stream, i);
    return words;
  }

  Words targets(std::uint64_t stream) const {
    const bool entropy = std::holds_alternative<kernels::CrossEntropy>(model_.loss);
    const tensor::Shape predictions = wire(model_, samples_).layers.back().output;
    Words words(static_cast<std::size_t>(kernels::target_count(model_.loss, predictions)));
    for (std::size_t i = 0; i < words.size(); ++i) words[i] = entropy ? number(stream, i) : value(stream, i);
    return words;
  }

  /// Residual blocks that start small: a ReLU of a deep network is else so near to 0 somewhere that rounding decides.
  std::vector<float> start_values(const ModelTensors& tensors) const {
    std::vector<float> start(tensors.layout.size());
    initialize(tensors, 1, start);
    const std::string last = model_.name == "resnet50" ? ".bn3.weight" : ".bn2.weight";
    for (const auto& view : tensors.layout.tensors())
      if (view.name.starts_with("layer") && view.name.ends_with(last))
        for (float& value : std::span(start).subspan(view.offset, view.count)) value = kCalm;
    return start;
  }

  double train(std::uint64_t step, std::ofstream& batches) {
    const Words x = samples(2 * step), y = targets(2 * step + 1);
    put(batches, x);
    put(batches, y);
    network_.load_parameters(floats(parameters_));
    network_.set_batch(x.data(), y.data());
    const auto terms = static_cast<float>(samples_ * network_.terms());
    network_.forward_backward(floats(gradients_), 1 / terms);
    update();
    float loss;
    backend_.copy_to_host(&loss, floats(gradients_) + tensors_.layout.size() + Network::kLossAt, sizeof loss);
    return loss / terms;
  }

  void update() {
    const kernels::DeviceValue<kernels::SgdStep> sgd(backend_,
                                                     {given_.at("learning_rate"), given_.at("momentum"), 0, false});
    const kernels::DeviceValue<kernels::AverageStep> average(backend_, {0.1f, 1.0f});
    for (const auto& view : tensors_.layout.tensors()) {
      const std::array one{kernels::ArenaRange{view.offset, view.count}};
      if (view.role == tensor::Role::statistic)
        backend_.update(average.get(), {floats(parameters_), {}, floats(gradients_)}, one);
      else
        backend_.update(sgd.get(), {floats(parameters_), {floats(momentum_)}, floats(gradients_)}, one);
    }
  }

  kernels::Backend& backend_;
  const json& given_;
  std::int64_t samples_;
  ModelTensors whole_;  ///< of the model that is not divided, as PyTorch has them
  Description model_;
  ModelTensors tensors_;
  Network network_;
  tensor::Buffer parameters_, momentum_, gradients_;
};

int run(const std::string& name, const std::filesystem::path& folder) {
  std::unique_ptr<kernels::Backend> backend;
  try {
    backend = kernels::make_backend({.backend = name});
  } catch (const ConfigError& error) {  // not built, or cannot run here
    fmt::print("skipped: {}\n", error.what());
    return 77;
  }
  for (const auto& given : json::parse(std::ifstream(folder / "cases.json"))) Curve(*backend, given).write(folder);
  return 0;
}
}  // namespace
}  // namespace distdl::model

int main(int argc, char** argv) try {
  if (argc != 3) return 64;
  return distdl::model::run(argv[1], argv[2]);
} catch (const std::exception& error) {
  fmt::print(stderr, "curve_driver: {}\n", error.what());
  return 1;
}
