// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <tuple>

#include <gtest/gtest.h>

#include "tests/kernels/cuda/absent_gpu.hpp"
#include <distdl/kernels/cuda/layers/convolution_plans.hpp>

namespace distdl::kernels::cuda::test {
namespace {
using tensor::DataType;

struct ConvolutionCase {
  const char* name;
  ConvolutionExtents of;
};
/// Images of `size` x `size`, and as many outputs as the window has.
ConvolutionCase make(const char* name, std::int64_t samples, std::int64_t channels, std::int64_t size, std::int64_t out,
                     std::int64_t kernel, std::int64_t stride, std::int64_t padding, std::int64_t groups = 1) {
  const std::int64_t to = (size + 2 * padding - kernel) / stride + 1;
  return {name,
          {{samples, channels, size, size},
           {out, channels / groups, kernel, kernel},
           {samples, out, to, to},
           {padding, stride, 1}}};
}
const ConvolutionCase kWide[] = {
    make("Resnet50First", 256, 3, 224, 64, 7, 2, 3),    make("Resnet50Narrow", 256, 256, 56, 64, 1, 1, 0),
    make("Resnet50Wide", 256, 64, 56, 256, 1, 1, 0),    make("Resnet50Middle", 256, 128, 28, 128, 3, 1, 1),
    make("Resnet50Stride", 256, 128, 56, 128, 3, 2, 1), make("Resnet50Skip", 256, 256, 56, 512, 1, 2, 0),
    make("Resnet18First", 128, 3, 32, 64, 3, 1, 1),     make("Resnet18", 128, 64, 32, 64, 3, 1, 1),
    make("Grouped", 32, 64, 28, 64, 3, 1, 1, 4)};
const ConvolutionCase kOthers[] = {make("Vit", 64, 3, 32, 192, 4, 4, 0), make("Lenet", 64, 1, 28, 6, 5, 1, 2),
                                   make("Depthwise", 32, 64, 28, 64, 3, 1, 1, 64)};

class Convolutions : public testing::TestWithParam<std::tuple<ConvolutionCase, Gpu, DataType>> {
 protected:
  void SetUp() override {
    if (const std::string why = obstacle(); !why.empty()) GTEST_SKIP() << why;
  }
  static ConvolutionPlans plans() {
    const auto& [convolution, gpu, type] = GetParam();
    const DnnDescriptor description = describe_gpu(json(gpu));
    return {convolution.of, type, {nullptr, description.get()}, {}};
  }
};

class WideConvolutions : public Convolutions {};
TEST_P(WideConvolutions, UseTensorCores) {
  const ConvolutionPlans found = plans();
  EXPECT_TRUE(found.use_tensor_cores());
  EXPECT_LT(found.workspace_bytes(), std::size_t{1} << 30U);
}

class OtherConvolutions : public Convolutions {};
TEST_P(OtherConvolutions, HavePlans) {
  EXPECT_NO_THROW(plans());
}

std::string convolution_name(const testing::TestParamInfo<Convolutions::ParamType>& test) {
  const auto& [convolution, gpu, type] = test.param;
  return std::string(convolution.name) + gpu.name + (type == DataType::bfloat16 ? "Bf16" : "Fp16");
}
INSTANTIATE_TEST_SUITE_P(Of, WideConvolutions,
                         testing::Combine(testing::ValuesIn(kWide), testing::Values(kH200, kA100),
                                          testing::Values(DataType::bfloat16, DataType::float16)),
                         convolution_name);
INSTANTIATE_TEST_SUITE_P(Of, OtherConvolutions,
                         testing::Combine(testing::ValuesIn(kOthers), testing::Values(kH200, kA100),
                                          testing::Values(DataType::bfloat16)),
                         convolution_name);
}  // namespace
}  // namespace distdl::kernels::cuda::test
