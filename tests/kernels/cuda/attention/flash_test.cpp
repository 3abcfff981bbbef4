// SPDX-License-Identifier: Apache-2.0
// The kernels of attention in 16 bits, with a thread of the CPU for each of the GPU's and a stand-in for the tensor
// cores, against the backend "reference". Needs no CUDA.
#include <bit>
#include <cmath>

#include <gtest/gtest.h>

#include "tests/kernels/cuda/on_cpu.hpp"
#include "tests/kernels/cuda/reference_layer.hpp"
#include "tests/kernels/cuda/threads_on_cpu.hpp"
#include <distdl/kernels/cuda/attention/flash_kernels.cuh>

namespace distdl::kernels::cuda::test {
namespace {

/// tensor_core.cuh's instruction as the PTX ISA tells which lane has what.
struct TensorCoreOnCpu {
  template <class T>
  static void multiply_add(float (&c)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
    const auto all =
        this_thread.block->gather<6>(this_thread.number, this_thread.gathers++, {a[0], a[1], a[2], a[3], b[0], b[1]});
    const unsigned lane = this_thread.number % 32;
    for (unsigned i = 0; i < 4; ++i) {
      const unsigned row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
      for (unsigned k = 0; k < 16; ++k) {
        const unsigned of_a = row % 8 * 4 + k % 8 / 2, of_b = column * 4 + k % 8 / 2;
        c[i] += half_of<T>(all[of_a][row / 8 + k / 8 * 2], k % 2) * half_of<T>(all[of_b][4 + k / 8], k % 2);
      }
    }
  }
  template <class T>
  static std::uint32_t pair(float low, float high) {
    return T(low).bits | std::uint32_t{T(high).bits} << 16;
  }
  template <class T>
  static float half_of(std::uint32_t pair, unsigned upper) {
    return std::bit_cast<T>(static_cast<std::uint16_t>(pair >> (16 * upper)));
  }
};

TEST(CudaTensorCore, StandInMultipliesMatrices) {
  const Values a = random_values(16 * 16, 1), b = random_values(16 * 8, 2);
  Values c(16 * 8), expected(16 * 8);
  for (int row = 0; row < 16; ++row)
    for (int column = 0; column < 8; ++column)
      for (int k = 0; k < 16; ++k)
        expected[row * 8 + column] += Bfloat16(a[row * 16 + k]) * Bfloat16(b[k * 8 + column]);
  run({1}, {32}, [&] {
    const int g = static_cast<int>(threadIdx.x) / 4, t = static_cast<int>(threadIdx.x) % 4;
    const auto of_a = [&](int row, int k) {
      return TensorCoreOnCpu::pair<Bfloat16>(a[row * 16 + k], a[row * 16 + k + 1]);
    };
    const auto of_b = [&](int k) { return TensorCoreOnCpu::pair<Bfloat16>(b[k * 8 + g], b[(k + 1) * 8 + g]); };
    float sums[4] = {};
    TensorCoreOnCpu::multiply_add<Bfloat16>(
        sums, {of_a(g, 2 * t), of_a(g + 8, 2 * t), of_a(g, 2 * t + 8), of_a(g + 8, 2 * t + 8)},
        {of_b(2 * t), of_b(2 * t + 8)});
    for (int i = 0; i < 4; ++i) c[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = sums[i];
  });
  for (std::size_t i = 0; i < c.size(); ++i) EXPECT_NEAR(c[i], expected[i], 1e-5f);
}

struct FlashCase {
  Attention spec;
  tensor::Shape x;
};

class CudaFlashAttention : public testing::TestWithParam<FlashCase> {};

template <class T, int kWidth>
void expect_flash(const Attention& spec, const tensor::Shape& shape, float tolerance) {
  Reference reference(spec, shape);
  for (float& value : reference.x) value *= 2;
  reference.forward_backward<T>();
  const AttentionExtents of = extents_of(spec, shape);
  const auto x = as<T>(reference.x), dy = as<T>(reference.dy);
  std::vector<T> y(dy.size(), 99.0f), dx(x.size(), 99.0f), turned = x;
  const auto rows = static_cast<std::size_t>(of.samples * of.heads * of.places);
  Values logarithms(rows, 99.0f), means(rows, 99.0f), cosines(of.places * (of.width / 2)), sines(cosines.size());
  const Angles angles{cosines.data(), sines.data()};
  const std::int64_t x_rows = of.samples * of.places * of.x_heads();
  if (spec.rotary_base > 0) {
    for_each(cosines.size(), FillAngles{angles, spec.rotary_base, of.width});
    for_each_row(x_rows, TurnHeads<T>{of, x.data(), turned.data(), angles, 1});
  }
  const FlashArguments arguments{of, 1 / std::sqrt(static_cast<float>(of.width)), logarithms.data(), means.data()};
  const auto blocks = static_cast<unsigned>(arguments.tiles() * of.samples);
  run({blocks * static_cast<unsigned>(of.heads)}, {kFlashThreads},
      [&] { flash_forward_kernel<TensorCoreOnCpu, T, kWidth>(arguments, turned.data(), y.data()); });
  expect_near(y, reference.y, tolerance);

  for_each_row(static_cast<std::int64_t>(rows), MeanSlopes<T>{of, y.data(), dy.data(), means.data()});
  run({blocks * static_cast<unsigned>(of.heads)}, {kFlashThreads},
      [&] { flash_query_gradient_kernel<TensorCoreOnCpu, T, kWidth>(arguments, turned.data(), dy.data(), dx.data()); });
  run({blocks * static_cast<unsigned>(of.kv_heads)}, {kFlashThreads},
      [&] { flash_key_gradient_kernel<TensorCoreOnCpu, T, kWidth>(arguments, turned.data(), dy.data(), dx.data()); });
  if (spec.rotary_base > 0) for_each_row(x_rows, TurnHeads<T>{of, dx.data(), dx.data(), angles, -1});
  expect_near(dx, reference.dx, 2 * tolerance);
}

TEST_P(CudaFlashAttention, AgreesWithReference) {
  const auto& [spec, x] = GetParam();
  const std::int64_t width = extents_of(spec, x).width;
  if (width <= 32) {
    expect_flash<Bfloat16, 32>(spec, x, 8e-3f);
    expect_flash<Float16, 32>(spec, x, 1e-3f);
  } else if (width <= 64) {
    expect_flash<Float16, 64>(spec, x, 1e-3f);
  } else {
    expect_flash<Float16, 128>(spec, x, 1e-3f);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Heads, CudaFlashAttention,
    testing::Values(FlashCase{{.heads = 1}, {1, 16, 3 * 16}}, FlashCase{{.heads = 2}, {2, 9, 6 * 8}},
                    FlashCase{{.heads = 1}, {1, 97, 3 * 8}}, FlashCase{{.heads = 1, .causal = false}, {1, 70, 3 * 32}},
                    FlashCase{{.heads = 4, .kv_heads = 2}, {1, 5, 8 * 24}},
                    FlashCase{{.heads = 2, .kv_heads = 1}, {1, 67, 4 * 8}},
                    FlashCase{{.heads = 2, .kv_heads = 1, .rotary_base = 100}, {2, 20, 4 * 16}},
                    FlashCase{{.heads = 1}, {1, 66, 3 * 64}}, FlashCase{{.heads = 1, .causal = false}, {1, 17, 3 * 72}},
                    FlashCase{{.heads = 1}, {1, 65, 3 * 128}}));
}  // namespace
}  // namespace distdl::kernels::cuda::test
