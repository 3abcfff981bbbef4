// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <limits>

#include <gtest/gtest.h>

#include "tests/kernels/cuda/primitives/shared_functors.hpp"
#include <distdl/base/philox.hpp>

namespace distdl::kernels::cuda::test {
namespace {
std::vector<float> values(std::uint64_t key) {
  std::vector<float> all{0.0f, -0.0f, 1e-42f, std::numeric_limits<float>::infinity(), -1.0f};
  for (std::uint64_t i = 0; i < 2000; ++i) all.push_back(Philox::uniform(Philox::block(key, 0, i)[0]) * 4 - 2);
  return all;
}

TEST(CudaFunctors, GiveTheSameBitsCompiledByNvcc) {
  auto a = values(1), b = values(2);
  auto expected = run_functors(a, b), actual = run_functors_of_nvcc(a, b);
  ASSERT_EQ(actual.size(), expected.size());
  EXPECT_EQ(std::memcmp(actual.data(), expected.data(), expected.size() * sizeof(float)), 0);
}
}  // namespace
}  // namespace distdl::kernels::cuda::test
