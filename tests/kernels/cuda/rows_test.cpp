// SPDX-License-Identifier: Apache-2.0
// Layers of rows: the bodies of their CUDA kernels, run on the CPU against the backend "reference". Needs no CUDA.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/kernels/cuda/on_cpu.hpp"
#include "tests/kernels/cuda/reference_layer.hpp"
#include <distdl/kernels/cuda/activations.hpp>
#include <distdl/kernels/cuda/row_norm.hpp>
#include <distdl/kernels/cuda/sequences.hpp>

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
  sum_columns(column_chunks(rows, columns), SumOfRows{terms.data(), sums.data(), columns});
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
  const auto& [spec, norm, input] = GetParam();
  Reference reference(spec, input);
  reference.forward_backward();
  const std::int64_t rows = element_count(input) / norm.width;
  const float* weight = reference.parameters[0].data();
  const float* bias = norm.is_centred ? reference.parameters[1].data() : nullptr;
  const float *x = reference.x.data(), *dy = reference.dy.data();
  const auto count = reference.x.size(), width = static_cast<std::size_t>(norm.width);
  Values mean(rows), inverse(rows), y(count), evaluated(count), dx(count), dweight(width), dbias(width);
  const RowMoments moments{mean.data(), inverse.data()};
  for_each_row(rows, RowNormForward{norm, x, weight, bias, y.data(), moments});
  for_each_row(rows, RowNormForward{norm, x, weight, bias, evaluated.data(), {nullptr, nullptr}});
  for_each_row(rows, RowNormInputGradient{norm, x, dy, weight, moments, dx.data()});
  sum_columns(column_chunks(rows, norm.width),
              RowNormWeightGradient{norm, x, dy, moments, dweight.data(), norm.is_centred ? dbias.data() : nullptr});
  EXPECT_THAT(y, Pointwise(FloatNear(5e-6f), reference.y));
  EXPECT_THAT(evaluated, Pointwise(FloatNear(5e-6f), reference.evaluated));
  EXPECT_THAT(dx, Pointwise(FloatNear(2e-5f), reference.dx));
  EXPECT_THAT(dweight, Pointwise(FloatNear(2e-5f), reference.gradients[0]));
  if (norm.is_centred) {
    EXPECT_THAT(dbias, Pointwise(FloatNear(2e-5f), reference.gradients[1]));
  }
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
  for_each_row(1, RowNormForward{norm, x.data(), weight.data(), bias.data(), y.data(), {nullptr, nullptr}});
  for (std::size_t i = 0; i < y.size(); ++i) ASSERT_NEAR(y[i], i % 2 == 0 ? 1 : -1, 2e-5) << i;
}

template <class Function>
void expect_activation(const LayerSpec& spec) {
  Reference reference(spec, {5, 41});
  for (std::size_t i = 0; i < reference.x.size(); ++i) reference.x[i] *= 1 + static_cast<float>(i % 9);
  reference.forward_backward();
  Values y(reference.x.size()), dx(reference.x.size());
  for_each(y.size(), Activate<Function>{reference.x.data(), y.data()});
  for_each(dx.size(), ActivationGradient<Function>{reference.x.data(), reference.dy.data(), dx.data()});
  EXPECT_THAT(y, Pointwise(FloatNear(2e-6f), reference.y));
  EXPECT_THAT(dx, Pointwise(FloatNear(2e-6f), reference.dx));
}

TEST(CudaActivations, AgreeWithReference) {
  expect_activation<elementwise::Gelu>(Gelu{});
  expect_activation<elementwise::GeluTanh>(Gelu{.tanh = true});
  expect_activation<elementwise::Silu>(Silu{});
}

TEST(CudaActivations, GatedSiluAgreesWithReference) {
  Reference reference(GatedSilu{}, {2, 3, 70});
  reference.forward_backward();
  Values y(reference.y.size()), dx(reference.x.size());
  for_each_row(6, GatedSiluForward{reference.x.data(), y.data(), 35});
  for_each_row(6, GatedSiluGradient{reference.x.data(), reference.dy.data(), dx.data(), 35});
  EXPECT_THAT(y, Pointwise(FloatNear(1e-6f), reference.y));
  EXPECT_THAT(dx, Pointwise(FloatNear(1e-6f), reference.dx));
}

TEST(CudaSequences, PositionsAreAddedAndTheirGradientsSummed) {
  Reference reference(PositionEmbedding{5}, {3, 4, 37});
  reference.forward_backward();
  Values y(reference.y.size()), dweight(4 * 37);
  for_each_row(3 * 4, AddPositions{reference.x.data(), reference.parameters[0].data(), y.data(), 4, 37});
  sum_columns(column_chunks(3, 4 * 37), SumOfRows{reference.dy.data(), dweight.data(), 4 * 37});
  EXPECT_EQ(y, reference.y);
  dweight.resize(5 * 37);  // the layer zeroes places that no sequence has
  EXPECT_THAT(dweight, Pointwise(FloatNear(1e-6f), reference.gradients[0]));
}

TEST(CudaSequences, TokenComesFirst) {
  Reference reference(ClassToken{}, {3, 4, 37});
  reference.forward_backward();
  Values y(reference.y.size()), dx(reference.x.size()), dweight(37);
  for_each_row(3 * 5, PrependToken{reference.x.data(), reference.parameters[0].data(), y.data(), 4, 37});
  for_each_row(3 * 4, DropToken{reference.dy.data(), dx.data(), 4, 37});
  sum_columns(column_chunks(3, 37), SumOfRows{reference.dy.data(), dweight.data(), 5 * 37});
  EXPECT_EQ(y, reference.y);
  EXPECT_EQ(dx, reference.dx);
  EXPECT_THAT(dweight, Pointwise(FloatNear(1e-6f), reference.gradients[0]));
}

TEST(CudaSequences, PixelsBecomePlaces) {
  Reference reference(PixelsToSequence{}, {2, 3, 5, 7});
  reference.forward_backward();
  Values y(reference.y.size()), dx(reference.x.size());
  for_each_row(2 * 35, Transpose{reference.x.data(), y.data(), 3, 35});
  for_each_row(2 * 3, Transpose{reference.dy.data(), dx.data(), 35, 3});
  EXPECT_EQ(y, reference.y);
  EXPECT_EQ(dx, reference.dx);
}

TEST(CudaSequences, OnePlaceIsSelected) {
  Reference reference(SelectPlace{2}, {3, 4, 37});
  reference.forward_backward();
  Values y(reference.y.size()), dx(reference.x.size(), 99.0f);
  for_each_row(3, SelectRow{reference.x.data(), y.data(), 2, 4, 37});
  for_each_row(3 * 4, SelectRowGradient{reference.dy.data(), dx.data(), 2, 4, 37});
  EXPECT_EQ(y, reference.y);
  EXPECT_EQ(dx, reference.dx);
}
}  // namespace
}  // namespace distdl::kernels::cuda::test
