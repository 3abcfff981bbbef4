// SPDX-License-Identifier: Apache-2.0
// The optimizers' kernels over all ranges at once, on the CPU: they must give the bits of the backend "reference".
#include <tuple>
#include <type_traits>

#include <gtest/gtest.h>

#include "tests/kernels/cuda/on_cpu.hpp"
#include "tests/kernels/cuda/threads_on_cpu.hpp"
#include "tests/kernels/layer_run.hpp"
#include <distdl/kernels/cuda/optimizers/optimizers.hpp>
#include <distdl/kernels/cuda/optimizers/range_kernels.cuh>
#include <distdl/kernels/options.hpp>

namespace distdl::kernels::cuda::test {
namespace {
using kernels::test::random_values;
using kernels::test::Values;

class CudaOptimizers : public testing::Test {
 protected:
  static constexpr std::size_t kCount = 58000;

  /// As optimizers.cu, with fewer threads a block.
  template <class Body>
  void for_each_range(const Body& body) {
    run({static_cast<unsigned>(table_.parts * kPiecesOfPart)}, {64}, [&] { ranges_kernel(table_, body); });
  }
  template <class Term, class Take>
  void ordered_sums(const Term& term, const Take& take) {
    std::vector<double> parts(static_cast<std::size_t>(table_.parts), -1);
    sum_each(table_.parts, kPart, SumOfPart<Term>{term, table_, parts.data()});
    sum_each(table_.count, table_.most_parts, SumOfRange<Take>{table_, parts.data(), take});
  }

  UpdateArenas arenas() { return {p_.data(), {m_.data(), v_.data()}, g_.data()}; }

  /// As optimizers.cu.
  template <class Step>
  void update(const Step& step) {
    if constexpr (Adaptive<Step>) {
      ordered_sums(Square{p_.data()}, StoreSum{squares_.data()});
      ordered_sums(Term<Step, Terms::first>{&step, arenas()},
                   StoreRate<Step>{&step, table_.ranges, squares_.data(), rates_.data()});
    }
    for_each_range(Update<Step>{&step, arenas(), rates_.data()});
  }

  /// Ours against the reference's, from the same start.
  template <class Step>
  void expect_same_bits(const Step& step, bool is_still = false) {
    const Values p = p_, m = m_, v = v_;
    reference_->update(&step, arenas(), ranges_);
    const Values expected_p = std::exchange(p_, p), expected_m = std::exchange(m_, m),
                 expected_v = std::exchange(v_, v);
    update(step);
    EXPECT_EQ(std::tie(p_, m_, v_) == std::tie(p, m, v), is_still);
    EXPECT_EQ(p_, expected_p);
    EXPECT_EQ(m_, expected_m);
    EXPECT_EQ(v_, expected_v);
  }

  /// The sums of the terms of a step whose terms were taken.
  template <class Step>
  void expect_same_terms(const Step& step) {
    expect_same_bits(TermsOf<Step>{step}, std::is_same_v<Step, LarsStep>);
    std::vector<double> expected(ranges_.size()), sums = expected;
    reference_->sums_of_terms(&step, arenas(), ranges_, expected.data());
    ordered_sums(Term<Step, Terms::known>{&step, arenas()}, StoreSum{sums.data()});
    EXPECT_EQ(sums, expected);
    EXPECT_GT(sums.back(), 0);
    expect_same_bits(KnownRate<Step>{step});
  }

  const std::vector<ArenaRange> ranges_{{0, 0},
                                        {0, 1},
                                        {16, 40000, {true, true}},
                                        {40016, 0},
                                        {40016, 300, {false, false}},
                                        {41000, 16384, {false, true}},
                                        {57400, 257, {true, true}}};
  const std::vector<RangeParts> places_ = parts_of(ranges_);
  const RangeTable table_ = table_of(places_, places_.data());
  std::vector<double> squares_ = std::vector<double>(ranges_.size()), rates_ = squares_;
  Values p_ = random_values(kCount, 1), m_ = random_values(kCount, 2), g_ = random_values(kCount, 3), v_ = [] {
    Values squares = random_values(kCount, 4);
    for (float& value : squares) value *= value;
    return squares;
  }();
  std::unique_ptr<Backend> reference_ = make_backend({.backend = "reference"});
  const AdamStep adam_step_{0.05, 0.9f, 0.1f, 0.99f, 0.01f, 1.2f, 3.4f, 1e-6f, 0.1f, 0.5f};
};

TEST_F(CudaOptimizers, SumsOfManyRangesAreThoseOfEachToTheBit) {
  std::vector<double> expected(ranges_.size());
  reference_->sums_of_squares(g_.data(), ranges_, expected.data());
  ordered_sums(Square{g_.data()}, StoreSum{squares_.data()});
  EXPECT_EQ(squares_, expected);
  EXPECT_GT(squares_.back(), 0);
}

TEST_F(CudaOptimizers, SgdIsTheReferenceToTheBit) {
  expect_same_bits(SgdStep{0.05f, 0.9f, 1e-2f, true, 0.5f});
}

TEST_F(CudaOptimizers, LarsIsTheReferenceToTheBit) {
  expect_same_bits(LarsStep{0.05, 0.9f, 1e-2, 0.5f, 0.02});
}

TEST_F(CudaOptimizers, AdamWIsTheReferenceToTheBit) {
  expect_same_bits(AdamWStep{adam_step_});
}

TEST_F(CudaOptimizers, LambIsTheReferenceToTheBit) {
  expect_same_bits(LambStep{adam_step_});
}

TEST_F(CudaOptimizers, StepsInPartsAreTheReferencesToTheBit) {
  expect_same_terms(LarsStep{0.05, 0.9f, 1e-2, 0.5f, 0.02});
  expect_same_terms(LambStep{adam_step_});
}

TEST_F(CudaOptimizers, RunningAveragesAreTheReferencesToTheBit) {
  expect_same_bits(AverageStep{0.1f, 0.25f});
}
}  // namespace
}  // namespace distdl::kernels::cuda::test
