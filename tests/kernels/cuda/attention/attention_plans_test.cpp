// SPDX-License-Identifier: Apache-2.0
// Whether cuDNN takes the graphs of attention for GPUs that are not there: it chooses its engines, compiles them and
// plans, with a driver that only pretends to take the result.
#include <numeric>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/kernels/cuda/absent_gpu.hpp"
#include "tests/kernels/cuda/on_cpu.hpp"
#include <distdl/kernels/cuda/attention/attention_plans.hpp>

namespace distdl::kernels::cuda::test {
namespace {
using tensor::DataType;

AttentionPlans plan(const Gpu& gpu, const AttentionExtents& of, DataType type, const DnnLimits& limits = {}) {
  const DnnDescriptor description = describe_gpu(json(gpu));
  return {of, type, {nullptr, description.get()}, limits};
}

struct Case {
  const char* name;
  AttentionExtents of;
};
const Case kCases[] = {{"Gpt2", {2, 1024, 12, 12, 64, true}},
                       {"Grouped", {2, 512, 32, 8, 128, true}},
                       {"Vit", {4, 197, 12, 12, 64, false}},
                       {"SmallVit", {8, 65, 3, 3, 64, false}},
                       {"Odd", {3, 7, 4, 2, 24, true}}};

class AttentionPlansOf : public testing::TestWithParam<std::tuple<Case, Gpu, DataType>> {
 protected:
  void SetUp() override {
    if (const std::string why = obstacle(); !why.empty()) GTEST_SKIP() << why;
  }
};

TEST_P(AttentionPlansOf, AreFoundForwardAndBackward) {
  const auto& [attention, gpu, type] = GetParam();
  const AttentionPlans plans = plan(gpu, attention.of, type);
  // Of backward: the gradient of the scores in 16 bits, of tiles of up to 128 places, and a little.
  const std::int64_t places = (attention.of.places + 127) / 128 * 128;
  const std::int64_t scores = attention.of.samples * attention.of.heads * places * places;
  EXPECT_LE(plans.workspace_bytes(), static_cast<std::size_t>(2 * scores) * 3 / 2 + 4096);
}

TEST_P(AttentionPlansOf, NeedMemoryForQueriesOnlyWhereBitsMayVary) {
  const auto& [attention, gpu, type] = GetParam();
  const AttentionPlans plans = plan(gpu, attention.of, type, {.is_deterministic = false});
  AttentionExtents padded = attention.of;
  padded.places = (padded.places + 127) / 128 * 128;
  EXPECT_LE(plans.workspace_bytes(), sizeof(float) * 2 * static_cast<std::size_t>(padded.queries()) + 4096);
}

std::string name_of(const testing::TestParamInfo<AttentionPlansOf::ParamType>& test) {
  const auto& [attention, gpu, type] = test.param;
  return std::string(attention.name) + gpu.name + (type == DataType::bfloat16 ? "Bf16" : "Fp16");
}
INSTANTIATE_TEST_SUITE_P(OfBfloat16, AttentionPlansOf,
                         testing::Combine(testing::ValuesIn(kCases), testing::Values(kH200, kA100),
                                          testing::Values(DataType::bfloat16)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(OfFloat16, AttentionPlansOf,
                         testing::Combine(testing::Values(kCases[0]), testing::Values(kH200),
                                          testing::Values(DataType::float16)),
                         name_of);

TEST(AttentionPlans, AreRefusedWhereCudnnHasNone) {
  if (const std::string why = obstacle(); !why.empty()) GTEST_SKIP() << why;
  EXPECT_THROW(plan(kH200, {2, 64, 2, 2, 12, true}, DataType::bfloat16), DnnRefusal);
  EXPECT_THROW(plan(kH200, {2, 1, 2, 2, 64, true}, DataType::bfloat16), DnnRefusal);
}

TEST(AttentionPlans, AreRefusedWhereTheWorkspaceIsTooLarge) {
  if (const std::string why = obstacle(); !why.empty()) GTEST_SKIP() << why;
  EXPECT_THROW(plan(kH200, {2, 256, 2, 2, 64, true}, DataType::bfloat16, {.most_workspace = 1000}), DnnRefusal);
}

/// What a view of `start` reaches, in the order of its axes.
std::vector<float> read(const float* start, const DnnView& view) {
  std::vector<float> all;
  const auto [n, heads, places, width] = view.extents;
  for (std::int64_t i = 0; i < n * heads * places * width; ++i) {
    const DnnView::Four at{i / (heads * places * width), i / (places * width) % heads, i / width % places, i % width};
    all.push_back(start[std::inner_product(at.begin(), at.end(), view.strides.begin(), std::int64_t{0})]);
  }
  return all;
}

TEST(AttentionViews, ReachTheHeadsOfPackedRows) {
  const AttentionExtents of{2, 5, 6, 3, 8, true};
  std::vector<float> x(static_cast<std::size_t>(of.queries() + 2 * of.keys()));
  std::iota(x.begin(), x.end(), 0.0F);
  std::vector<float> queries(static_cast<std::size_t>(of.queries())), keys(static_cast<std::size_t>(of.keys())),
      values(keys.size());
  for_each_row(of.samples * of.places * of.x_heads(),
               TakeHeads{of, x.data(), {queries.data(), keys.data(), values.data()}, {nullptr, nullptr}});

  // packed_heads() counts in elements of 16 bits.
  const PackedHeads packed = packed_heads(of, x.data());
  const auto start = [&](const void* head) {
    return x.data() + (static_cast<const char*>(head) - reinterpret_cast<const char*>(x.data())) / 2;
  };
  EXPECT_EQ(read(start(packed.queries), heads_view(of, of.x_heads(), of.heads)), queries);
  EXPECT_EQ(read(start(packed.keys), heads_view(of, of.x_heads(), of.kv_heads)), keys);
  EXPECT_EQ(read(start(packed.values), heads_view(of, of.x_heads(), of.kv_heads)), values);
}

TEST(AttentionViews, ReachTheHeadsOfY) {
  const AttentionExtents of{2, 5, 6, 3, 8, true};
  std::vector<float> y(static_cast<std::size_t>(of.queries())), split(y.size());
  std::iota(y.begin(), y.end(), 0.0F);
  for_each_row(of.samples * of.places * of.heads, SplitOutput{of, y.data(), split.data()});
  EXPECT_EQ(read(y.data(), heads_view(of, of.heads, of.heads)), split);
}
}  // namespace
}  // namespace distdl::kernels::cuda::test
