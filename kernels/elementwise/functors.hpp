// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Element-wise maths, one definition for all backends. constexpr, so that nvcc takes them in device code with
/// --expt-relaxed-constexpr. Compile without contraction (-ffp-contract=off, -fmad=false): then each backend gets the
/// same bits.
namespace distdl::kernels::elementwise {

/// max(x, 0); a NaN stays one, so that a diverged run is seen.
struct Relu {
  constexpr float operator()(float x) const { return 0.0f > x ? 0.0f : x; }
};

/// dx of y = relu(x), from y alone.
struct ReluGradient {
  constexpr float operator()(float y, float dy) const { return y > 0.0f ? dy : 0.0f; }
};

struct Add {
  constexpr float operator()(float a, float b) const { return a + b; }
};

struct RunningAverage {
  float weight;
  float scale;
  constexpr float operator()(float value, float observed) const {
    return (1.0f - weight) * value + weight * scale * observed;
  }
};

}  // namespace distdl::kernels::elementwise
