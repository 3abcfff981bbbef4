// SPDX-License-Identifier: Apache-2.0
// Layers of rows: the bodies of their CUDA kernels, run on the CPU against the backend "reference". Needs no CUDA.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/kernels/cuda/on_cpu.hpp"
#include "tests/kernels/cuda/reference_layer.hpp"
#include <distdl/kernels/cuda/layers/activations.hpp>
#include <distdl/kernels/cuda/layers/row_norm.hpp>
#include <distdl/kernels/cuda/layers/sequences.hpp>
#include <distdl/kernels/cuda/primitives/swap_axes.hpp>

namespace distdl::kernels::cuda::test {
namespace {
using tensor::element_count;
using tensor::Shape;
using testing::FloatNear;
using testing::Pointwise;

struct Counted {
  std::int64_t rows;
  std::int64_t columns;
};

class CudaColumns : public testing::TestWithParam<Counted> {};

// Whole numbers add up exactly, so each must be there once.
TEST_P(CudaColumns, AreSummedOverEachRowOnce) {
  const auto [rows, columns] = GetParam();
  Values terms(static_cast<std::size_t>(rows * columns)), expected(static_cast<std::size_t>(columns));
  for (std::int64_t i = 0; i < rows * columns; ++i) {
    terms[i] = static_cast<float>(i * 7 % 1013);
    expected[i % columns] += terms[i];
  }
  Values sums(expected.size(), -1.0f);
  sum_columns(column_chunks(rows, columns), SumOfRows<float>{terms.data(), sums.data(), columns});
  EXPECT_EQ(sums, expected);
}

INSTANTIATE_TEST_SUITE_P(Extents, CudaColumns,
                         testing::Values(Counted{1, 1}, Counted{1, 40}, Counted{7, 3}, Counted{8, 33}, Counted{63, 2},
                                         Counted{64, 2}, Counted{65, 2}, Counted{129, 5}, Counted{1000, 3},
                                         Counted{4097, 65}, Counted{700, 4000}));

TEST(CudaColumns, AreCutIntoChunksThatHoldEachRowOnce) {
  for (std::int64_t rows = 1; rows < 3000; rows += 1 + rows / 9)
    for (std::int64_t columns : {1, 31, 32, 33, 768, 50257, 1 << 20}) {
      const ColumnChunks chunks = column_chunks(rows, columns);
      EXPECT_GE(chunks.count(), 1);
      EXPECT_LE(chunks.count(), 1024);
      std::int64_t next = 0;
      for (std::int64_t chunk = 0; chunk < chunks.count(); ++chunk) {
        EXPECT_EQ(chunks.begin(chunk), next);
        EXPECT_GT(chunks.end(chunk), next);
        next = chunks.end(chunk);
      }
      EXPECT_EQ(next, rows);
    }
}

struct NormCase {
  LayerSpec spec;
  RowNorm norm;
  Shape input;
};

class CudaRowNorm : public testing::TestWithParam<NormCase> {};

TEST_P(CudaRowNorm, AgreesWithReference) {
  for_each_type([&](auto example) {
    using T = decltype(example);
    const auto& [spec, norm, input] = GetParam();
    Reference reference(spec, input);
    reference.forward_backward<T>();
    const std::int64_t rows = element_count(input) / norm.width;
    const float* weight = reference.parameters[0].data();
    const float* bias = norm.is_centred ? reference.parameters[1].data() : nullptr;
    const auto x = as<T>(reference.x), dy = as<T>(reference.dy);
    const auto width = static_cast<std::size_t>(norm.width);
    Values mean(rows), inverse(rows), dweight(width), dbias(width);
    std::vector<T> y(x.size()), evaluated(x.size()), dx(x.size());
    const RowMoments moments{mean.data(), inverse.data()};
    for_each_row(rows, RowNormForward<T>{norm, x.data(), weight, bias, y.data(), moments});
    for_each_row(rows, RowNormForward<T>{norm, x.data(), weight, bias, evaluated.data(), {nullptr, nullptr}});
    for_each_row(rows, RowNormInputGradient<T>{norm, x.data(), dy.data(), weight, moments, dx.data()});
    sum_columns(column_chunks(rows, norm.width),
                RowNormWeightGradient<T>{norm, x.data(), dy.data(), moments, dweight.data(),
                                         norm.is_centred ? dbias.data() : nullptr});
    expect_near(y, reference.y, 5e-6f);
    expect_near(evaluated, reference.evaluated, 5e-6f);
    expect_near(dx, reference.dx, 2e-5f);
    EXPECT_THAT(dweight, Pointwise(FloatNear(2e-5f), reference.gradients[0]));
    if (norm.is_centred) {
      EXPECT_THAT(dbias, Pointwise(FloatNear(2e-5f), reference.gradients[1]));
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Shapes, CudaRowNorm,
                         testing::Values(NormCase{LayerNorm{}, {7, 1e-5f, true}, {4, 7}},
                                         NormCase{LayerNorm{1e-3f}, {200, 1e-3f, true}, {3, 5, 200}},
                                         NormCase{LayerNorm{}, {33, 1e-5f, true}, {2, 130, 33}},
                                         NormCase{LayerNorm{}, {32, 1e-5f, true}, {1, 32}},
                                         NormCase{RmsNorm{}, {9, 1e-5f, false}, {2, 3, 9}},
                                         NormCase{RmsNorm{1e-3f}, {200, 1e-3f, false}, {3, 40, 200}}));

TEST(CudaRowNorm, KeepsItsDigitsFarFromZero) {
  const RowNorm norm{4096, 1e-5f, true};
  Values x(4096), weight(4096, 1.0f), bias(4096), y(4096);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = 1000 + (i % 2 == 0 ? 1.0f : -1.0f);
  for_each_row(1, RowNormForward<float>{norm, x.data(), weight.data(), bias.data(), y.data(), {nullptr, nullptr}});
  for (std::size_t i = 0; i < y.size(); ++i) ASSERT_NEAR(y[i], i % 2 == 0 ? 1 : -1, 2e-5) << i;
}

template <class Function, class T>
void expect_activation(const LayerSpec& spec) {
  Reference reference(spec, {5, 41});
  for (std::size_t i = 0; i < reference.x.size(); ++i) reference.x[i] *= 1 + static_cast<float>(i % 9);
  reference.forward_backward<T>();
  const auto x = as<T>(reference.x), dy = as<T>(reference.dy);
  std::vector<T> y(x.size()), dx(x.size());
  fill_each(y.size(), Activate<Function, T>{x.data(), y.data()});
  fill_each(dx.size(), ActivationGradient<Function, T>{x.data(), dy.data(), dx.data()});
  expect_near(y, reference.y, 2e-6f);
  expect_near(dx, reference.dx, 2e-6f);
}

TEST(CudaActivations, AgreeWithReference) {
  for_each_type([](auto example) {
    using T = decltype(example);
    expect_activation<elementwise::Gelu, T>(Gelu{});
    expect_activation<elementwise::GeluTanh, T>(Gelu{.tanh = true});
    expect_activation<elementwise::Silu, T>(Silu{});
  });
}

TEST(CudaActivations, ReluMayWorkInPlace) {
  for_each_type([](auto example) {
    using T = decltype(example);
    Reference reference(Relu{}, {5, 41});
    reference.forward_backward<T>();
    auto x = as<T>(reference.x), dy = as<T>(reference.dy);
    fill_each(x.size(), Activate<elementwise::Relu, T>{x.data(), x.data()});
    fill_each(dy.size(), ReluInputGradient<T>{x.data(), dy.data(), dy.data()});
    EXPECT_EQ(Values(x.begin(), x.end()), reference.y);
    EXPECT_EQ(Values(dy.begin(), dy.end()), reference.dx);
  });
}

TEST(CudaActivations, GatedSiluAgreesWithReference) {
  for_each_type([](auto example) {
    using T = decltype(example);
    Reference reference(GatedSilu{}, {2, 3, 70});
    reference.forward_backward<T>();
    const auto x = as<T>(reference.x), dy = as<T>(reference.dy);
    std::vector<T> y(dy.size()), dx(x.size());
    for_each_row(6, GatedSiluForward<T>{x.data(), y.data(), 35});
    for_each_row(6, GatedSiluGradient<T>{x.data(), dy.data(), dx.data(), 35});
    expect_near(y, reference.y, 1e-6f);
    expect_near(dx, reference.dx, 1e-6f);
  });
}

TEST(CudaSequences, PositionsAreAddedAndTheirGradientsSummed) {
  for_each_type([](auto example) {
    using T = decltype(example);
    Reference reference(PositionEmbedding{5}, {3, 4, 37});
    reference.forward_backward<T>();
    const auto x = as<T>(reference.x), dy = as<T>(reference.dy);
    std::vector<T> y(x.size());
    Values dweight(4 * 37);
    for_each_row(3 * 4, AddPositions<T>{x.data(), reference.parameters[0].data(), y.data(), 4, 37});
    sum_columns(column_chunks(3, 4 * 37), SumOfRows<T>{dy.data(), dweight.data(), 4 * 37});
    EXPECT_EQ(y, as<T>(reference.y));
    dweight.resize(5 * 37);  // the layer zeroes places that no sequence has
    EXPECT_THAT(dweight, Pointwise(FloatNear(1e-6f), reference.gradients[0]));
  });
}

TEST(CudaSequences, PositionsOfASliceOfRowsAreAddedAndTheirGradientsSummed) {
  for_each_type([](auto example) {
    using T = decltype(example);
    Reference reference(PositionEmbedding{.places = 4, .rows = {6, 4}}, {7, 37});
    reference.forward_backward<T>();
    const auto x = as<T>(reference.x), dy = as<T>(reference.dy);
    std::vector<T> y(x.size());
    Values dweight(4 * 37);
    for_each_row(7, AddPositions<T>{x.data(), reference.parameters[0].data(), y.data(), 4, 37, 6});
    for_each(dweight.size(), SumOfSlice<T>{dy.data(), dweight.data(), 7, 4, 37, 6});
    EXPECT_EQ(y, as<T>(reference.y));
    EXPECT_THAT(dweight, Pointwise(FloatNear(1e-6f), reference.gradients[0]));
  });
}

TEST(CudaSequences, OfAChunkAreJoinedToThoseBefore) {
  for_each_type([](auto example) {
    using T = decltype(example);
    Reference reference(JoinContext{.heads = 4, .kv_heads = 2, .before = 3}, {2, 5, 8 * 9});
    reference.forward_backward<T>();
    const auto x = as<T>(reference.x), dy = as<T>(reference.dy);
    std::vector<T> y(dy.size()), dx(x.size());
    const Joined of{5, 8 * 9, 4 * 9, 3};
    for_each_row(2 * 5, JoinRows<T>{of, x.data(), y.data()});
    for_each_row(2 * 5, JoinRowsGradient<T>{of, dy.data(), dx.data()});
    auto expected = as<T>(reference.y);
    std::size_t written = 0;
    for (std::size_t i = 0; i < y.size(); ++i) {
      const bool is_of_this_chunk = y[i] != T{};  // others write the rest
      written += is_of_this_chunk ? 1 : 0;
      if (!is_of_this_chunk) expected[i] = T{};
    }
    EXPECT_EQ(written, x.size());
    EXPECT_EQ(y, expected);
    EXPECT_EQ(dx, as<T>(reference.dx));
  });
}

TEST(CudaSequences, TokenComesFirst) {
  for_each_type([](auto example) {
    using T = decltype(example);
    Reference reference(ClassToken{}, {3, 4, 37});
    reference.forward_backward<T>();
    const auto x = as<T>(reference.x), dy = as<T>(reference.dy);
    std::vector<T> y(dy.size()), dx(x.size());
    Values dweight(37);
    for_each_row(3 * 5, PrependToken<T>{x.data(), reference.parameters[0].data(), y.data(), 4, 37});
    for_each_row(3 * 4, DropToken<T>{dy.data(), dx.data(), 4, 37});
    sum_columns(column_chunks(3, 37), SumOfRows<T>{dy.data(), dweight.data(), 5 * 37});
    EXPECT_EQ(y, as<T>(reference.y));
    EXPECT_EQ(dx, as<T>(reference.dx));
    EXPECT_THAT(dweight, Pointwise(FloatNear(1e-6f), reference.gradients[0]));
  });
}

TEST(CudaSequences, PixelsBecomePlaces) {
  for_each_type([](auto example) {
    using T = decltype(example);
    const Shape input{2, 3, 5, 7};
    Reference reference(PixelsToSequence{}, input);
    reference.forward_backward<T>();
    const auto x = as<T>(reference.x), dy = as<T>(reference.dy);
    std::vector<T> y(x.size()), dx(x.size());
    fill_each(y.size(), SwapAxes<T, T>{x.data(), y.data(), 3, 35});
    fill_each(dx.size(), SwapAxes<T, T>{dy.data(), dx.data(), 35, 3});
    EXPECT_EQ(y, as<T>(reference.y));
    EXPECT_EQ(dx, as<T>(reference.dx));
    EXPECT_EQ(y, with_channels_last(x, input)) << "which is what such images are already";
    Values wide(x.size());
    fill_each(wide.size(), SwapAxes<T, float>{x.data(), wide.data(), 1, 1});
    EXPECT_EQ(wide, reference.x);
  });
}

TEST(CudaSequences, OnePlaceIsSelected) {
  for_each_type([](auto example) {
    using T = decltype(example);
    Reference reference(SelectPlace{2}, {3, 4, 37});
    reference.forward_backward<T>();
    const auto x = as<T>(reference.x), dy = as<T>(reference.dy);
    std::vector<T> y(dy.size()), dx(x.size(), 99.0f);
    for_each_row(3, SelectRow<T>{x.data(), y.data(), 2, 4, 37});
    for_each_row(3 * 4, SelectRowGradient<T>{dy.data(), dx.data(), 2, 4, 37});
    EXPECT_EQ(y, as<T>(reference.y));
    EXPECT_EQ(dx, as<T>(reference.dx));
  });
}
}  // namespace
}  // namespace distdl::kernels::cuda::test
