// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include <distdl/kernels/elementwise/functors.hpp>
#include <distdl/kernels/optimizer_steps.hpp>

namespace distdl::kernels::cuda::test {

/// One run through all element-wise maths. Compiled twice, by the C++ compiler and by nvcc's host pass.
/// static: as inline functions, the linker would keep one of the two.
static inline std::vector<float> run_functors(const std::vector<float>& a, const std::vector<float>& b) {
  std::vector<float> results;
  for (std::size_t i = 0; i < a.size(); ++i) {
    results.push_back(elementwise::Add{}(a[i], b[i]));
    results.push_back(elementwise::Relu{}(a[i]));
    results.push_back(elementwise::ReluGradient{}(a[i], b[i]));
    float average = a[i];
    AverageStep{0.1f, 0.25f}(average, b[i]);
    results.push_back(average);
    for (float value : {elementwise::Gelu{}(a[i]), elementwise::Gelu{}.gradient(a[i], b[i]),
                        elementwise::GeluTanh{}(a[i]), elementwise::GeluTanh{}.gradient(a[i], b[i]),
                        elementwise::Silu{}(a[i]), elementwise::Silu{}.gradient(a[i], b[i])})
      results.push_back(value);
    for (bool stays : elementwise::Stays{{1, 2}, 3, 0.5f}.four(i)) results.push_back(stays ? 1.0f : 0.0f);
    for (bool nesterov : {false, true}) {
      float parameter = a[i], momentum = b[i];
      SgdStep{0.05f, 0.9f, 5e-4f, nesterov}(parameter, momentum, a[i] * b[i]);
      results.push_back(parameter);
      results.push_back(momentum);
    }
    float parameter = a[i], first = b[i], second = a[i] * a[i];
    LarsStep lars{0.05, 0.9f, 5e-4, 0.5f, 0.02};
    lars.learning_rate = lars.trusted_rate(double{second}, b[i] * b[i] + 1.0);
    lars(parameter, first, a[i] * b[i]);
    const AdamWStep adamw{{0.05, 0.9f, 0.1f, 0.99f, 0.01f, 1.2f, 3.4f, 1e-6f, 0.1f, 0.5f}};
    adamw(parameter, first, second, a[i] * b[i]);
    LambStep lamb{adamw};
    results.push_back(static_cast<float>(lamb.term(parameter, first, second, b[i])));
    lamb.learning_rate = lamb.trusted_rate(double{second}, 3.0);
    lamb(parameter, first, second, b[i]);
    results.push_back(static_cast<float>(elementwise::Square{}(parameter)));
    results.insert(results.end(), {parameter, first, second});
  }
  return results;
}

/// In functors.cu.
std::vector<float> run_functors_of_nvcc(const std::vector<float>& a, const std::vector<float>& b);

}  // namespace distdl::kernels::cuda::test
