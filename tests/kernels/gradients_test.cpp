// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "tests/kernels/each_backend.hpp"
#include "tests/kernels/layer_cases.hpp"
#include "tests/kernels/layer_run.hpp"

namespace distdl::kernels::test {
namespace {
// f(x, parameters) = <weights, y>, summed in double; its derivative along a direction by four points, against the
// layer's.
class Gradients : public EachBackend {
 protected:
  static constexpr double kStep = 0.01;

  /// f of the layer, when one of its arguments (-1: x, else a parameter) moves by `distance` along `direction`.
  double moved(LayerRun& run, int argument, const Values& direction, double distance) {
    Values x = x_;
    auto parameters = parameters_;
    Values& target = argument < 0 ? x : parameters[argument];
    for (std::size_t i = 0; i < target.size(); ++i) target[i] += static_cast<float>(distance * direction[i]);
    run.set_parameters(0, parameters);
    return dot(run.forward(x), weights_);
  }

  double derivative(LayerRun& run, int argument, const Values& direction) {
    auto f = [&](double distance) { return moved(run, argument, direction, distance); };
    return (8 * (f(kStep) - f(-kStep)) - (f(2 * kStep) - f(-2 * kStep))) / (12 * kStep);
  }

  void check(LayerRun& run, int argument, const Values& gradient, const std::string& what) {
    double largest = 1e-3;
    for (float g : gradient) largest = std::max(largest, std::abs(double{g}));
    auto count = static_cast<std::int64_t>(gradient.size());
    for (std::uint64_t seed = 0; seed < 4; ++seed) {
      Values direction = random_values(count, 77 + seed);
      EXPECT_NEAR(dot(gradient, direction), derivative(run, argument, direction),
                  1e-3 * largest * std::sqrt(static_cast<double>(count)))
          << what << " along random direction " << seed;
    }
    for (std::size_t i = 0; i < gradient.size(); i += 1 + gradient.size() / 40) {
      Values unit(gradient.size());
      unit[i] = 1;
      EXPECT_NEAR(gradient[i], derivative(run, argument, unit), 2e-3 * largest) << what << " element " << i;
    }
  }

  void check(const LayerCase& layer_case) {
    SCOPED_TRACE(layer_case.name);
    const LayerSpec& spec = layer_case.layers[0];
    LayerRun run(*backend_, layer_case.layers, layer_case.input);
    x_ = spaced_values(tensor::element_count(layer_case.input), 5);
    parameters_ = random_parameters(spec, layer_case.input, 6);
    run.set_parameters(0, parameters_);
    weights_ = random_values(tensor::element_count(run.output_shape()), 7);
    run.forward(x_);
    Values dx = run.backward(weights_);
    auto gradients = run.parameter_gradients(0);
    if (!std::holds_alternative<Embedding>(spec)) check(run, -1, dx, "input");
    auto specs = parameters_of(spec, layer_case.input);
    for (std::size_t i = 0; i < specs.size(); ++i)
      if (specs[i].role == tensor::Role::parameter) check(run, static_cast<int>(i), gradients[i], specs[i].name);
  }

  Values x_, weights_;
  std::vector<Values> parameters_;
};

TEST_P(Gradients, AgreeWithFiniteDifferences) {
  for (const auto& layer_case : small_layers()) check(layer_case);
}

DISTDL_ON_EACH_BACKEND(Gradients);
}  // namespace
}  // namespace distdl::kernels::test
