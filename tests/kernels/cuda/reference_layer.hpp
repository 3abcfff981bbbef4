// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "tests/kernels/layer_run.hpp"
#include <distdl/kernels/backend.hpp>
#include <distdl/kernels/options.hpp>
#include <distdl/tensor/half.hpp>

namespace distdl::kernels::cuda::test {

using kernels::test::LayerRun;
using kernels::test::random_parameters;
using kernels::test::random_values;
using kernels::test::Values;
using tensor::Bfloat16;
using tensor::Float16;

/// As activations of type T.
template <class T>
std::vector<T> as(const Values& values) {
  return {values.begin(), values.end()};
}
template <class T>
void round_to(Values& values) {
  for (float& value : values) value = T(value);
}

/// test(T{}) for each type of activations.
template <class Test>
void for_each_type(const Test& test) {
  test(0.0f);
  test(Bfloat16{});
  test(Float16{});
}

/// The largest step between neighbours of T, relative to them.
template <class T>
inline constexpr float kStep = 0;
template <>
inline constexpr float kStep<Bfloat16> = 0x1p-7f;
template <>
inline constexpr float kStep<Float16> = 0x1p-10f;

/// As near as floats, and then rounded once.
template <class T>
void expect_near(const std::vector<T>& actual, const Values& expected, float tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i)
    ASSERT_NEAR(actual[i], expected[i], tolerance + 0.51f * kStep<T> * std::abs(expected[i])) << "at " << i;
}

/// One layer on the reference backend.
struct Reference {
  Reference(const LayerSpec& spec, const tensor::Shape& input)
      : backend(make_backend({.backend = "reference"})),
        run(*backend, {spec}, input),
        parameters(random_parameters(spec, input, 5)),
        x(random_values(tensor::element_count(input), 6)) {
    run.set_parameters(0, parameters);
  }
  /// From what is a T.
  template <class T = float>
  void forward_backward() {
    round_to<T>(x);
    evaluated = run.forward(x, Phase::evaluation);
    y = run.forward(x);
    dy = random_values(static_cast<std::int64_t>(y.size()), 7);
    round_to<T>(dy);
    dx = run.backward(dy);
    gradients = run.parameter_gradients(0);
  }
  std::unique_ptr<Backend> backend;
  LayerRun run;
  std::vector<Values> parameters;
  Values x, evaluated, y, dy, dx;
  std::vector<Values> gradients;
};

/// Images as (N, H, W, C), and back.
template <class T>
std::vector<T> with_channels_last(const std::vector<T>& images, const tensor::Shape& shape) {
  std::vector<T> moved(images.size());
  const auto channels = static_cast<std::size_t>(shape[1]), pixels = static_cast<std::size_t>(shape[2] * shape[3]);
  for (std::size_t i = 0; i < images.size(); ++i)
    moved[(i / pixels / channels * pixels + i % pixels) * channels + i / pixels % channels] = images[i];
  return moved;
}
template <class T>
std::vector<T> with_channels_first(const std::vector<T>& images, const tensor::Shape& shape) {
  std::vector<T> moved(images.size());
  const auto channels = static_cast<std::size_t>(shape[1]), pixels = static_cast<std::size_t>(shape[2] * shape[3]);
  for (std::size_t i = 0; i < images.size(); ++i)
    moved[i] = images[(i / pixels / channels * pixels + i % pixels) * channels + i / pixels % channels];
  return moved;
}

}  // namespace distdl::kernels::cuda::test
