// SPDX-License-Identifier: Apache-2.0
// Index maths of the pooling kernels on the CPU. Needs no CUDA.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/kernels/cuda/on_cpu.hpp"
#include "tests/kernels/cuda/reference_layer.hpp"
#include <distdl/kernels/cuda/layers/average_pool2d.hpp>

namespace distdl::kernels::cuda::test {
namespace {
using testing::FloatNear;
using testing::Pointwise;

// Over every small kernel, stride, padding and extent: a position lies in those windows that say so.
TEST(CudaPoolWindows, ThatContainAPositionAreFoundWithoutLooking) {
  int checked = 0;
  for (std::int64_t kernel = 1; kernel <= 5; ++kernel)
    for (std::int64_t stride = 1; stride <= 6; ++stride)
      for (std::int64_t padding = 0; padding <= kernel / 2; ++padding)
        for (std::int64_t extent = std::max<std::int64_t>(1, kernel - 2 * padding); extent <= 11; ++extent) {
          const std::int64_t count = (extent + 2 * padding - kernel) / stride + 1;
          const PoolWindows windows{kernel, stride, padding, extent, extent, count, count};
          for (std::int64_t at = 0; at < extent; ++at)
            for (std::int64_t window = 0; window < count; ++window) {
              const bool contains = window * stride - padding <= at && at < window * stride - padding + kernel;
              const bool is_found = windows.first_window(at) <= window && window <= windows.last_window(at, count);
              ASSERT_EQ(is_found, contains) << kernel << " " << stride << " " << padding << " " << extent;
              ASSERT_EQ(windows.begin(window) <= at && at < windows.end(window, extent), contains);
              ++checked;
            }
        }
  EXPECT_GT(checked, 5000);
}

struct AverageCase {
  AveragePool2d spec;
  tensor::Shape input;
};

class CudaAveragePool : public testing::TestWithParam<AverageCase> {};

TEST_P(CudaAveragePool, AgreesWithReference) {
  for_each_type([&](auto example) {
    using T = decltype(example);
    const auto& [spec, input] = GetParam();
    Reference reference(spec, input);
    reference.forward_backward<T>();
    const auto& output = reference.run.output_shape();
    PoolWindows windows{spec.kernel, spec.stride, 0, input[2], input[3], output[2], output[3]};
    auto x = as<T>(reference.x), dy = as<T>(reference.dy);
    std::vector<T> y(dy.size()), dx(x.size(), 99.0f);
    for_each(y.size(), AveragePoolForward<T>{x.data(), y.data(), windows});
    for_each(dx.size(), AveragePoolBackward<T>{dy.data(), dx.data(), windows});
    expect_near(y, reference.y, 1e-6f);
    expect_near(dx, reference.dx, 1e-6f);

    windows.channels = input[1];
    x = with_channels_last(x, input);
    dy = with_channels_last(dy, output);
    std::vector<T> moved_y(y.size()), moved_dx(dx.size(), 99.0f);
    for_each(y.size(), AveragePoolForward<T>{x.data(), moved_y.data(), windows});
    for_each(dx.size(), AveragePoolBackward<T>{dy.data(), moved_dx.data(), windows});
    EXPECT_EQ(moved_y, with_channels_last(y, output));
    EXPECT_EQ(moved_dx, with_channels_last(dx, input));
  });
}

INSTANTIATE_TEST_SUITE_P(Windows, CudaAveragePool,
                         testing::Values(AverageCase{{2, 2}, {2, 3, 5, 4}}, AverageCase{{3, 1}, {1, 2, 5, 4}},
                                         AverageCase{{3, 2}, {2, 3, 8, 9}}, AverageCase{{2, 3}, {1, 2, 8, 10}},
                                         AverageCase{{4, 4}, {1, 1, 4, 4}}));

TEST(CudaAveragePool, OfWholePlanesAgreesWithReference) {
  for_each_type([](auto example) {
    using T = decltype(example);
    for (const tensor::Shape& input :
         {tensor::Shape{2, 3, 4, 5}, tensor::Shape{2, 5, 7, 13}, tensor::Shape{3, 2, 1, 1}}) {
      Reference reference(GlobalAveragePool{}, input);
      reference.forward_backward<T>();
      const std::int64_t planes = input[0] * input[1], pixels = input[2] * input[3];
      const auto x = as<T>(reference.x), dy = as<T>(reference.dy);
      std::vector<T> y(dy.size()), dx(x.size());
      for_each_row(planes, PlaneMean<T>{x.data(), y.data(), pixels});
      for_each_row(planes, PlaneMeanGradient<T>{dy.data(), dx.data(), pixels});
      expect_near(y, reference.y, 1e-6f);
      expect_near(dx, reference.dx, 1e-6f);

      const auto moved_x = with_channels_last(x, input);
      for_each(y.size(), PixelMean<T>{moved_x.data(), y.data(), pixels, input[1]});
      fill_each(dx.size(), PixelMeanGradient<T>{dy.data(), dx.data(), pixels, input[1]});
      expect_near(y, reference.y, 1e-6f);
      expect_near(with_channels_first(dx, input), reference.dx, 1e-6f);
    }
  });
}
}  // namespace
}  // namespace distdl::kernels::cuda::test
