// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "tests/kernels/layer_run.hpp"
#include <distdl/kernels/backend.hpp>

namespace distdl::kernels::cuda::test {

using kernels::test::LayerRun;
using kernels::test::random_parameters;
using kernels::test::random_values;
using kernels::test::Values;

/// One layer on the reference backend.
struct Reference {
  Reference(const LayerSpec& spec, const tensor::Shape& input)
      : backend(make_backend({.backend = "reference"})),
        run(*backend, {spec}, input),
        parameters(random_parameters(spec, input, 5)),
        x(random_values(tensor::element_count(input), 6)) {
    run.set_parameters(0, parameters);
  }
  void forward_backward() {
    evaluated = run.forward(x, Phase::evaluation);
    y = run.forward(x);
    dy = random_values(static_cast<std::int64_t>(y.size()), 7);
    dx = run.backward(dy);
    gradients = run.parameter_gradients(0);
  }
  std::unique_ptr<Backend> backend;
  LayerRun run;
  std::vector<Values> parameters;
  Values x, evaluated, y, dy, dx;
  std::vector<Values> gradients;
};

}  // namespace distdl::kernels::cuda::test
