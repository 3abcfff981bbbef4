// SPDX-License-Identifier: Apache-2.0
// The CUDA kernels' own threads, on the CPU: they must give the bits of the same bodies run one after the other.
#include <gtest/gtest.h>

#include "tests/kernels/cuda/on_cpu.hpp"
#include "tests/kernels/cuda/threads_on_cpu.hpp"
#include "tests/kernels/layer_run.hpp"
#include <distdl/kernels/cuda/attention/attention.hpp>
#include <distdl/kernels/cuda/layers/activations.hpp>
#include <distdl/kernels/cuda/layers/cross_entropy.hpp>
#include <distdl/kernels/cuda/layers/row_norm.hpp>
#include <distdl/kernels/cuda/primitives/column_kernels.cuh>
#include <distdl/kernels/cuda/primitives/element_kernels.cuh>
#include <distdl/kernels/cuda/primitives/row_kernels.cuh>

namespace distdl::kernels::cuda::test {
namespace {
using kernels::test::random_values;
using kernels::test::Values;

unsigned blocks(std::int64_t count, std::int64_t of_block) {
  return static_cast<unsigned>((count + of_block - 1) / of_block);
}

template <class Body>
void run_rows(std::int64_t rows, const Body& body) {
  run({blocks(rows, kWarps)}, {kRowThreads}, [&] { warp_rows_kernel(rows, body); });
}

TEST(CudaThreads, OfAWarpShareARow) {
  for (std::int64_t width : {1, 31, 32, 33, 200}) {
    constexpr std::int64_t kRows = 11;  // the second block has warps without a row
    const RowNorm norm{width, 1e-5f, true};
    const Values x = random_values(kRows * width, 1), dy = random_values(kRows * width, 2),
                 weight = random_values(width, 3), bias = random_values(width, 4);
    Values y(x.size()), dx(x.size()), mean(kRows), inverse(kRows), expected_y(x.size()), expected_dx(x.size());
    const RowMoments moments{mean.data(), inverse.data()};
    const auto forward = [&](Values& to) {
      return RowNormForward<float>{norm, x.data(), weight.data(), bias.data(), to.data(), moments};
    };
    const auto backward = [&](Values& to) {
      return RowNormInputGradient<float>{norm, x.data(), dy.data(), weight.data(), moments, to.data()};
    };
    for_each_row(kRows, forward(expected_y));
    for_each_row(kRows, backward(expected_dx));
    mean.assign(kRows, 0);
    inverse.assign(kRows, 0);
    run_rows(kRows, forward(y));
    run_rows(kRows, backward(dx));
    EXPECT_EQ(y, expected_y) << width;
    EXPECT_EQ(dx, expected_dx) << width;
  }
}

TEST(CudaThreads, OfAWarpChangeScoresInPlace) {
  const AttentionExtents of{1, 45, 1, 1, 4, true};
  Values scores = random_values(45 * 45, 1), gradient = random_values(45 * 45, 2);
  Values expected = scores, expected_gradient = gradient;
  for_each_row(45, SoftmaxOfScores{of, expected.data()});
  for_each_row(45, SoftmaxOfScoresGradient{of, expected.data(), expected_gradient.data()});
  run_rows(45, SoftmaxOfScores{of, scores.data()});
  run_rows(45, SoftmaxOfScoresGradient{of, scores.data(), gradient.data()});
  EXPECT_EQ(scores, expected);
  EXPECT_EQ(gradient, expected_gradient);
}

TEST(CudaThreads, OfABlockShareALongRow) {
  for (std::int32_t classes : {1, 255, 257, 1000}) {
    const std::vector<std::int32_t> labels{0, classes - 1, -100};
    const Values logits = random_values(3 * classes, 1);
    Values gradient(logits.size()), expected_gradient(logits.size());
    std::vector<double> losses(9), expected_losses(9);
    const auto body = [&](Values& to, std::vector<double>& sums) {
      const Numbers numbers{labels.data(), 3, classes, true, -100};
      return CrossEntropyRow<float>{logits.data(), numbers, 0.1f, 0.5f, to.data(), {&sums[0], &sums[3], &sums[6]}};
    };
    for_each_long_row(3, body(expected_gradient, expected_losses));
    const auto row = body(gradient, losses);
    run({3}, {kRowThreads}, [&] { block_rows_kernel(row); });
    EXPECT_EQ(gradient, expected_gradient) << classes;
    EXPECT_EQ(losses, expected_losses) << classes;
  }
}

TEST(CudaThreads, OfABlockFindTheFirstFault) {
  std::vector<std::int32_t> numbers(700, 1);
  numbers[333] = numbers[690] = 9;
  NumberFault fault;
  const ReportFirstFault body{{numbers.data(), 700, 5}, NumberFault::Of::label, &fault};
  run({1}, {kRowThreads}, [&] { block_rows_kernel(body); });
  EXPECT_EQ(fault.place, 333);
  EXPECT_EQ(fault.number, 9);
}

TEST(CudaThreads, ShareColumns) {
  for (const auto& [rows, columns] : std::vector<std::pair<std::int64_t, std::int64_t>>{{5, 40}, {200, 33}}) {
    const Values x = random_values(rows * columns, 1), dy = random_values(rows * columns, 2),
                 moments = random_values(2 * rows, 3);
    Values mean(moments.begin(), moments.begin() + rows), inverse(moments.begin() + rows, moments.end());
    Values sums(2 * columns), expected(2 * columns);
    const ColumnChunks chunks = column_chunks(rows, columns);
    const auto reduce = [&, columns = columns](Values& to) {
      return RowNormWeightGradient<float>{{columns, 1e-5f, true},        x.data(),  dy.data(),
                                          {mean.data(), inverse.data()}, to.data(), to.data() + columns};
    };
    sum_columns(chunks, reduce(expected));
    std::vector<TwoColumnSums> partial(static_cast<std::size_t>(chunks.count() * columns));
    const KernelIndex grid{blocks(columns, kColumnsPerBlock), static_cast<unsigned>(chunks.count())};
    const auto of_columns = reduce(sums);
    run(grid, {kColumnsPerBlock, kColumnLanes}, [&] { column_kernel(chunks, of_columns, partial.data()); });
    if (chunks.count() > 1)
      for_each(static_cast<std::size_t>(columns),
               FinishColumn<RowNormWeightGradient<float>>{partial.data(), chunks, of_columns});
    EXPECT_EQ(sums, expected) << rows;
  }
}

TEST(CudaThreads, FillEachPlaceOnce) {
  for (std::int64_t count : {1, 255, 1024, 1025, 5000}) {
    const Values x = random_values(count, 1);
    Values y(x.size()), expected(x.size());
    const auto body = [&](Values& to) { return Activate<elementwise::Relu, float>{x.data(), to.data()}; };
    fill_each(x.size(), body(expected));
    const auto relu = body(y);
    run({blocks(count, 256 * kAtOnce)}, {256}, [&] { fill_kernel(x.size(), relu); });
    EXPECT_EQ(y, expected) << count;
  }
}

struct Sum {
  const float* terms;
  double* sums;
  std::int64_t count;
  double operator()(std::int64_t result, std::int64_t j) const { return terms[result * count + j]; }
  void finish(std::int64_t result, double sum) const { sums[result] = sum; }
};

TEST(CudaThreads, OfABlockShareASum) {
  for (std::int64_t count : {1, 255, 700}) {
    const Values terms = random_values(3 * count, 1);
    std::vector<double> sums(3), expected(3);
    sum_each(3, count, Sum{terms.data(), expected.data(), count});
    run({3}, {kLanes}, [&] { sum_kernel(count, Sum{terms.data(), sums.data(), count}); });
    EXPECT_EQ(sums, expected) << count;
  }
}
}  // namespace
}  // namespace distdl::kernels::cuda::test
