// SPDX-License-Identifier: Apache-2.0
// The other half of torch_test.py. usage: optimizer_driver CASES.json RESULTS.json
#include <fstream>

#include <nlohmann/json.hpp>

#include <distdl/kernels/options.hpp>
#include <distdl/optim/optimizer.hpp>

namespace distdl::optim {
namespace {
using nlohmann::json;

Options options_from(const json& given) {
  Options options;
  auto read = [&](const std::string& key, auto& field, const char*) {
    auto word = key.substr(key.find('.') + 1);
    if (!given.contains(word)) return;
    if constexpr (requires { field.name(); })
      field = given.at(word).template get<std::string>();
    else
      field = given.at(word).template get<std::decay_t<decltype(field)>>();
  };
  describe(options, read);
  return options;
}

/// The tensors of all steps of one case, laid out in an arena.
json run(const json& given) {
  tensor::ArenaLayout layout;
  for (const auto& shape : given.at("shapes"))
    layout.add(std::to_string(layout.tensors().size()), shape.get<tensor::Shape>());
  auto pack = [&](const json& tensors) {
    std::vector<float> arena(layout.size());
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      auto values = tensors[i].get<std::vector<float>>();
      std::copy(values.begin(), values.end(), arena.begin() + static_cast<std::ptrdiff_t>(layout.tensors()[i].offset));
    }
    return arena;
  };
  auto backend = kernels::make_backend({.backend = "reference"});
  Optimizer optimizer(options_from(given.at("options")), layout, *backend);
  std::vector<float> parameters = pack(given.at("start")), first(layout.size()), second(layout.size());
  Arenas arenas{.parameters = parameters.data(), .moments = {first.data(), second.data()}};
  json result = json::array();
  for (std::int64_t step = 0; const auto& gradients : given.at("gradients")) {
    auto packed = pack(gradients);
    arenas.gradients = packed.data();
    optimizer.prepare(arenas.gradients, {given.at("rate"), step, step, 1});
    optimizer.apply(arenas);
    ++step;
  }
  for (const auto& tensor : layout.tensors()) {
    auto from = parameters.begin() + static_cast<std::ptrdiff_t>(tensor.offset);
    result.push_back(std::vector<float>(from, from + static_cast<std::ptrdiff_t>(tensor.count)));
  }
  return result;
}
}  // namespace
}  // namespace distdl::optim

int main(int argc, char** argv) {
  if (argc != 3) return 64;
  nlohmann::json results;
  for (const auto& given : nlohmann::json::parse(std::ifstream(argv[1]))) results.push_back(distdl::optim::run(given));
  std::ofstream(argv[2]) << results;
  return 0;
}
