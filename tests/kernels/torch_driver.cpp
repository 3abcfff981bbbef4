// SPDX-License-Identifier: Apache-2.0
// The other half of torch_test.py. usage: torch_driver BACKEND CASES.json RESULTS.json
#include <algorithm>
#include <array>
#include <fstream>
#include <functional>
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tests/kernels/layer_run.hpp"
#include <distdl/base/errors.hpp>
#include <distdl/kernels/device_value.hpp>
#include <distdl/kernels/options.hpp>

namespace distdl::kernels::test {
namespace {
using nlohmann::json;

/// The layers that torch_test.py compares, by their kinds; dropout draws other numbers there.
const std::map<std::string, std::function<LayerSpec(const json&)>>& makers() {
  static const std::map<std::string, std::function<LayerSpec(const json&)>> all{
      {"linear",
       [](const json& j) {
         return Linear{j.at("out"), j.at("bias")};
       }},
      {"conv2d",
       [](const json& j) {
         return Conv2d{j.at("out"),  j.at("kernel"),   j.at("stride"), j.at("padding"),
                       j.at("bias"), j.at("dilation"), j.at("groups")};
       }},
      {"max_pool2d",
       [](const json& j) {
         return MaxPool2d{j.at("kernel"), j.at("stride"), j.at("padding")};
       }},
      {"average_pool2d",
       [](const json& j) {
         return AveragePool2d{j.at("kernel"), j.at("stride")};
       }},
      {"global_average_pool", [](const json&) { return GlobalAveragePool{}; }},
      {"relu", [](const json&) { return Relu{}; }},
      {"gelu", [](const json& j) { return Gelu{j.at("tanh")}; }},
      {"silu", [](const json&) { return Silu{}; }},
      {"gated_silu", [](const json&) { return GatedSilu{}; }},
      {"batch_norm", [](const json& j) { return BatchNorm{j.at("epsilon")}; }},
      {"layer_norm", [](const json& j) { return LayerNorm{j.at("epsilon")}; }},
      {"rms_norm", [](const json& j) { return RmsNorm{j.at("epsilon")}; }},
      {"embedding",
       [](const json& j) {
         return Embedding{j.at("entries"), j.at("width")};
       }},
      {"position_embedding", [](const json& j) { return PositionEmbedding{j.at("places")}; }},
      {"class_token", [](const json&) { return ClassToken{}; }},
      {"pixels_to_sequence", [](const json&) { return PixelsToSequence{}; }},
      {"select_place", [](const json& j) { return SelectPlace{j.at("place")}; }},
      {"attention",
       [](const json& j) {
         return Attention{j.at("heads"), j.at("kv_heads"), j.at("causal"), j.at("rotary_base")};
       }},
  };
  return all;
}

LayerSpec spec_from(const json& layer) {
  const std::string kind = layer.at("kind");
  const auto found = makers().find(kind);
  require(found != makers().end(), "unknown kind of layer \"{}\"", kind);
  return found->second(layer);
}

/// Host values in the backend's memory for the length of one call.
class Uploaded {
 public:
  template <class T>
  Uploaded(Backend& backend, const std::vector<T>& values)
      : backend_(backend), buffer_(backend.allocate(values.size() * sizeof(T))) {
    backend.copy_from_host(buffer_.data(), values.data(), values.size() * sizeof(T));
  }
  template <class T = float>
  T* data() const {
    return static_cast<T*>(buffer_.data());
  }
  Values download() const {
    Values values(buffer_.bytes() / sizeof(float));
    backend_.copy_to_host(values.data(), buffer_.data(), buffer_.bytes());
    return values;
  }

 private:
  Backend& backend_;
  tensor::Buffer buffer_;
};

class CaseRun {
 public:
  CaseRun(Backend& backend, const json& given) : backend_(backend), given_(given), run_(make_run()) {
    parameters_ = given.at("parameters").get<std::vector<std::vector<Values>>>();
    for (const auto& layer : parameters_) {
      std::vector<Values> zeros;
      for (const auto& values : layer) zeros.emplace_back(values.size());
      momentum_.push_back(zeros);
    }
  }

  /// One forward and backward from a given dy.
  json once() {
    set_parameters();
    json result;
    result["y"] = run_.forward(given_.at("x").get<Values>());
    result["dx"] = run_.backward(given_.at("dy").get<Values>());
    for (std::size_t i = 0; i < specs_.size(); ++i) result["gradients"].push_back(run_.parameter_gradients(i));
    result["evaluated"] = run_.forward(given_.at("x").get<Values>(), Phase::evaluation);
    return result;
  }

  /// Several steps of training on one batch.
  json train() {
    json result;
    for (int step = 0; step < given_.at("steps").get<int>(); ++step) {
      set_parameters();
      Values logits = run_.forward(given_.at("x").get<Values>());
      result["losses"].push_back(backward(logits));
      for (std::size_t i = 0; i < specs_.size(); ++i) update(i);
    }
    result["parameters"] = parameters_;
    return result;
  }

 private:
  LayerRun make_run() {
    for (const auto& layer : given_.at("layers")) specs_.push_back(spec_from(layer));
    return LayerRun(backend_, specs_, given_.at("input").get<tensor::Shape>());
  }

  void set_parameters() {
    for (std::size_t i = 0; i < specs_.size(); ++i) run_.set_parameters(i, parameters_[i]);
  }

  float backward(const Values& logits) {
    auto labels = given_.at("labels").get<std::vector<std::int32_t>>();
    Uploaded x(backend_, logits), y(backend_, labels), dx(backend_, logits), totals(backend_, Values(3));
    auto count = static_cast<float>(labels.size());
    backend_.loss(CrossEntropy{}, dense(run_.output_shape()))
        ->forward_backward(x.data(), y.data<std::int32_t>(), 1 / count, dx.data(), totals.data());
    run_.backward(dx.download());
    return totals.download()[0] / count;
  }

  void update(std::size_t layer) {
    const json& sgd = given_.at("sgd");
    const DeviceValue<SgdStep> step(backend_,
                                    {sgd.at("lr"), sgd.at("momentum"), sgd.at("weight_decay"), sgd.at("nesterov")});
    const DeviceValue<AverageStep> average(backend_, {0.1f, 1.0f});
    auto gradients = run_.parameter_gradients(layer);
    for (std::size_t p = 0; p < gradients.size(); ++p) {
      Uploaded value(backend_, parameters_[layer][p]), momentum(backend_, momentum_[layer][p]),
          gradient(backend_, gradients[p]);
      const std::array all{ArenaRange{0, gradients[p].size()}};
      if (p < 2)
        backend_.update(step.get(), {value.data(), {momentum.data()}, gradient.data()}, all);
      else  // a batch norm's running_mean and running_var
        backend_.update(average.get(), {value.data(), {}, gradient.data()}, all);
      parameters_[layer][p] = value.download();
      momentum_[layer][p] = momentum.download();
    }
  }

  Backend& backend_;
  const json& given_;
  std::vector<LayerSpec> specs_;
  LayerRun run_;
  std::vector<std::vector<Values>> parameters_, momentum_;  // [layer][tensor]
};

int run(const std::string& name, const char* cases_file, const char* results_file) {
  std::unique_ptr<Backend> backend;
  try {
    backend = make_backend({.backend = name});
  } catch (const ConfigError& error) {  // not built, or cannot run here
    fmt::print("skipped: {}\n", error.what());
    return 77;
  }
  json results;
  for (const auto& given : json::parse(std::ifstream(cases_file))) {
    CaseRun run(*backend, given);
    results.push_back(given.contains("labels") ? run.train() : run.once());
  }
  std::ofstream(results_file) << results;
  return 0;
}
}  // namespace
}  // namespace distdl::kernels::test

int main(int argc, char** argv) {
  if (argc != 4) return 64;
  return distdl::kernels::test::run(argv[1], argv[2], argv[3]);
}
