// SPDX-License-Identifier: Apache-2.0
// Embeddings and dropout: what their CUDA kernels do, on the CPU. Needs no CUDA.
#include <algorithm>
#include <cmath>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/kernels/cuda/on_cpu.hpp"
#include "tests/kernels/cuda/reference_layer.hpp"
#include <distdl/kernels/cuda/layers/dropout.hpp>
#include <distdl/kernels/cuda/layers/embedding.hpp>
#include <distdl/kernels/options.hpp>

namespace distdl::kernels::cuda::test {
namespace {
using testing::Each;
using testing::ElementsAre;
using testing::FloatNear;
using testing::Pointwise;
using Integers = std::vector<std::int32_t>;

Numbers numbers_of(const Integers& data, std::int32_t limit) {
  return {data.data(), static_cast<std::int64_t>(data.size()), limit};
}

/// As the stable sort on the GPU leaves them.
struct Sorted {
  explicit Sorted(const Integers& numbers, std::int32_t limit) : places(numbers.size()), starts(limit + 1) {
    std::iota(places.begin(), places.end(), 0);
    std::stable_sort(places.begin(), places.end(), [&](int a, int b) { return numbers[a] < numbers[b]; });
    Integers in_order;
    for (std::int32_t place : places) in_order.push_back(numbers[place]);
    for_each(starts.size(), FindStarts{numbers_of(in_order, limit), starts.data()});
  }
  Integers places, starts;
};

TEST(CudaEmbedding, AgreesWithReference) {
  const std::int64_t entries = 11, width = 37, samples = 3, count = 3 * 50;
  auto reference = make_backend({.backend = "reference"});
  auto layer = reference->layer(Embedding{entries, width}, dense({samples, 50}));
  Integers numbers;
  for (std::int64_t i = 0; i < count; ++i) numbers.push_back(static_cast<std::int32_t>(i * i % (entries - 1)));
  Values table = random_values(entries * width, 1), dy = random_values(count * width, 2);
  Values y(dy.size()), expected_y(dy.size()), gradient(table.size(), 99.0f), expected_gradient(table.size());
  const auto* x = reinterpret_cast<const float*>(numbers.data());
  const float* weight = table.data();
  layer->load_parameters({&weight, 1});
  layer->forward(x, expected_y.data(), Phase::training);
  float* to = expected_gradient.data();
  layer->backward_weights(x, dy.data(), {&to, 1});

  for_each_row(count, LookUp<float>{numbers_of(numbers, entries), table.data(), y.data(), width});
  std::vector<Bfloat16> short_y(y.size());
  for_each_row(count, LookUp<Bfloat16>{numbers_of(numbers, entries), table.data(), short_y.data(), width});
  EXPECT_EQ(short_y, as<Bfloat16>(expected_y));
  const Sorted sorted(numbers, entries);
  for_each_long_row(
      entries, CollectGradient<float>{sorted.places.data(), sorted.starts.data(), dy.data(), gradient.data(), width});
  EXPECT_EQ(y, expected_y);
  EXPECT_THAT(gradient, Pointwise(FloatNear(1e-5f), expected_gradient));
}

TEST(CudaEmbedding, OfASliceHasZerosForOtherNumbers) {
  const Integers numbers{2, 3, 0, 1, 2, 4}, in_order{0, 1, 2, 2, 3, 4};
  const Values table{1, 2};
  Values y(6);
  for_each_row(6, LookUp<float>{numbers_of(numbers, 4), table.data(), y.data(), 1, 1, 3});
  EXPECT_THAT(Values(y.begin(), y.begin() + 5), ElementsAre(2, 0, 0, 1, 2));
  EXPECT_TRUE(std::isnan(y[5]));
  Integers starts(3);
  for_each(starts.size(), FindStarts{numbers_of(in_order, 4), starts.data(), 1});
  EXPECT_THAT(starts, ElementsAre(1, 2, 4));
}

TEST(CudaEmbedding, NumbersThatTheTableLacksAreNaNAndHaveNoGradient) {
  const Integers numbers{2, -1, 0, 3, 2, 1000};
  const Values table{1, 2, 3}, dy{1, 2, 4, 8, 16, 32};
  Values y(6), gradient(3);
  for_each_row(6, LookUp<float>{numbers_of(numbers, 3), table.data(), y.data(), 1});
  EXPECT_THAT(Values({y[0], y[2], y[4]}), ElementsAre(3, 1, 3));
  EXPECT_THAT(Values({y[1], y[3], y[5]}), Each(testing::NanSensitiveFloatEq(std::nanf(""))));
  const Sorted sorted(numbers, 3);
  EXPECT_THAT(sorted.starts, ElementsAre(1, 2, 2, 4));
  for_each_long_row(3,
                    CollectGradient<float>{sorted.places.data(), sorted.starts.data(), dy.data(), gradient.data(), 1});
  EXPECT_THAT(gradient, ElementsAre(4, 0, 17));
}

TEST(CudaNumbers, FirstFaultIsReportedOnce) {
  Integers numbers(700, 4);
  NumberFault fault;
  const auto check = [&](Numbers checked) {
    for_each_long_row(1, ReportFirstFault{checked, NumberFault::Of::label, &fault});
  };
  check(numbers_of(numbers, 5));
  EXPECT_EQ(fault.of, NumberFault::Of::nothing);
  numbers[600] = 5;
  numbers[333] = -7;
  check(numbers_of(numbers, 5));
  EXPECT_EQ(fault.of, NumberFault::Of::label);
  EXPECT_EQ(fault.place, 333);
  EXPECT_EQ(fault.number, -7);
  EXPECT_EQ(fault.limit, 5);
  numbers[1] = 99;
  check(numbers_of(numbers, 5));
  EXPECT_EQ(fault.place, 333) << "until it was read";
  fault = {};
  numbers[1] = numbers[600] = -7;
  Numbers with_ignored = numbers_of(numbers, 5);
  with_ignored.has_ignored = true;
  with_ignored.ignored = -7;
  check(with_ignored);
  EXPECT_EQ(fault.of, NumberFault::Of::nothing);
}

TEST(CudaDropout, DropsWhatTheReferenceDrops) {
  for (std::int64_t count : {1, 3, 4, 5, 33, 400}) {
    const RngKey rng_key{0x123456789abcULL, 77};
    Reference reference(Dropout{.probability = 0.3f, .stream = 5}, {1, count});
    reference.backend->set_rng_key(rng_key);
    reference.forward_backward();
    Values y(reference.x.size()), dx(reference.x.size());
    for_each((y.size() + 3) / 4,
             Drop<float>{&rng_key, 5, 0.3f, 1 / (1 - 0.3f), reference.x.data(), y.data(), y.size()});
    for_each((y.size() + 3) / 4,
             Drop<float>{&rng_key, 5, 0.3f, 1 / (1 - 0.3f), reference.dy.data(), dx.data(), dx.size()});
    EXPECT_EQ(y, reference.y);
    EXPECT_EQ(dx, reference.dx);
    const auto x = as<Float16>(reference.x);
    std::vector<Float16> short_y(x.size());
    for_each((x.size() + 3) / 4, Drop<Float16>{&rng_key, 5, 0.3f, 1 / (1 - 0.3f), x.data(), short_y.data(), x.size()});
    for (std::size_t i = 0; i < x.size(); ++i) EXPECT_EQ(short_y[i] != 0.0f, reference.y[i] != 0.0f);
  }
}

TEST(CudaDropout, DropsOfAChunkWhatTheReferenceDrops) {
  const RngKey rng_key{0x123456789abcULL, 77};
  Reference reference(Dropout{.probability = 0.3f, .stream = 5, .first = 4, .all = 7}, {3, 2, 5});
  reference.backend->set_rng_key(rng_key);
  reference.forward_backward();
  Values y(reference.x.size());
  for_each(y.size(),
           DropInChunk<float>{&rng_key, 5, 0.3f, 1 / (1 - 0.3f), reference.x.data(), y.data(), 2 * 5, 7 * 5, 4 * 5});
  EXPECT_EQ(y, reference.y);
}

TEST(CudaDropout, DropsOfASliceOfRowsWhatTheReferenceDrops) {
  const RngKey rng_key{0x123456789abcULL, 77};
  Reference reference(Dropout{.probability = 0.3f, .stream = 5, .first = 4, .all = 7, .rows = {3, 2}}, {4, 5});
  reference.backend->set_rng_key(rng_key);
  reference.forward_backward();
  Values y(reference.x.size());
  for_each(y.size(), DropInChunk<float>{&rng_key, 5, 0.3f, 1 / (1 - 0.3f), reference.x.data(), y.data(), 2 * 5, 7 * 5,
                                        4 * 5, 3 * 5});
  EXPECT_EQ(y, reference.y);
}
}  // namespace
}  // namespace distdl::kernels::cuda::test
