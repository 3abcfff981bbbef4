// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <span>
#include <thread>
#include <tuple>

#include "tests/kernels/each_backend.hpp"
#include "tests/kernels/layer_cases.hpp"
#include "tests/kernels/layer_run.hpp"
#include <distdl/base/checksum.hpp>
#include <distdl/kernels/options.hpp>
#include <distdl/tensor/half.hpp>

namespace distdl::kernels::test {
namespace {
struct Results {
  Values evaluated, y, dx;
  std::vector<std::vector<Values>> gradients;  // [layer][tensor]
};

/// What all precisions can say exactly.
void shorten(Values& values, tensor::DataType type) {
  tensor::with_type(type, [&](auto element) {
    for (float& value : values) value = decltype(element)(value);
  });
}

/// On numbers that `given` can say exactly.
Results run_all(Backend& backend, const LayerCase& layer_case, tensor::DataType given = tensor::DataType::float32) {
  LayerRun run(backend, layer_case.layers, layer_case.input);
  tensor::Shape shape = layer_case.input;
  for (std::size_t i = 0; i < layer_case.layers.size(); ++i) {
    auto parameters = random_parameters(layer_case.layers[i], shape, 31 * i + 1);
    // Keeps activations near 1, as real initial weights do.
    auto specs = parameters_of(layer_case.layers[i], shape);
    for (std::size_t p = 0; p < specs.size(); ++p)
      if (specs[p].init == Init::fan_in_uniform)
        for (float& value : parameters[p]) value *= std::sqrt(3.0f / static_cast<float>(specs[p].fan_in));
    for (Values& values : parameters) shorten(values, given);
    run.set_parameters(i, parameters);
    shape = output_shape(layer_case.layers[i], shape);
  }
  Results results;
  Values x = random_values(tensor::element_count(layer_case.input), 3);
  Values dy = random_values(tensor::element_count(run.output_shape()), 4);
  shorten(x, given), shorten(dy, given);
  results.evaluated = run.forward(x, Phase::evaluation);
  results.y = run.forward(x);
  results.dx = run.backward(dy);
  for (std::size_t i = 0; i < layer_case.layers.size(); ++i) results.gradients.push_back(run.parameter_gradients(i));
  return results;
}

void expect_close(const Values& actual, const Values& expected, const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  double largest = 0.1, worst = 0;  // some gradients are zero but for rounding: the bias before a batch norm
  std::size_t where = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    largest = std::max(largest, std::abs(double{expected[i]}));
    double error = std::abs(double{actual[i]} - expected[i]);
    if (!(error <= worst)) worst = error, where = i;
  }
  EXPECT_LE(worst, 2e-5 * largest) << what << " element " << where << ": " << actual[where] << " against "
                                   << expected[where];
}

class Agreement : public EachBackend {};

TEST_P(Agreement, WithReference) {
  auto reference = make_backend({.backend = "reference"});
  for (const auto& layer_case : all_cases()) {
    SCOPED_TRACE(layer_case.name);
    Results actual = run_all(*backend_, layer_case), expected = run_all(*reference, layer_case);
    expect_close(actual.evaluated, expected.evaluated, "evaluation");
    expect_close(actual.y, expected.y, "output");
    expect_close(actual.dx, expected.dx, "input gradient");
    for (std::size_t i = 0; i < expected.gradients.size(); ++i)
      for (std::size_t p = 0; p < expected.gradients[i].size(); ++p)
        expect_close(actual.gradients[i][p], expected.gradients[i][p],
                     "layer " + std::to_string(i) + " gradient " + std::to_string(p));
  }
}

void expect_same_bits(const Values& a, const Values& b) {
  ASSERT_EQ(a.size(), b.size());
  EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof(float)), 0);
}

// The sum over microbatches is only as reproducible as each microbatch.
TEST_P(Agreement, OfTwoRunsIsToTheBit) {
  std::string reason;
  auto other = try_backend(GetParam(), reason);
  ASSERT_TRUE(other) << reason;
  for (const auto& layer_case : all_cases()) {
    SCOPED_TRACE(layer_case.name);
    Results a = run_all(*backend_, layer_case);
    std::vector<tensor::Buffer> shift;  // other addresses for the second run
    for (std::size_t i = 1; i < 8; ++i) shift.push_back(backend_->allocate(i * 64));
    Results b = run_all(*other, layer_case);
    expect_same_bits(a.y, b.y);
    expect_same_bits(a.dx, b.dx);
    for (std::size_t i = 0; i < a.gradients.size(); ++i)
      for (std::size_t p = 0; p < a.gradients[i].size(); ++p) expect_same_bits(a.gradients[i][p], b.gradients[i][p]);
  }
}

// Ranks may be threads of one process, each with a backend of its own.
TEST_P(Agreement, OfTwoThreadsAtOnceIsToTheBit) {
  LayerCase lenet = all_cases().back();
  std::array<Results, 2> results;
  std::vector<std::jthread> ranks;
  for (auto& result : results)
    ranks.emplace_back([&] {
      std::string reason;
      auto backend = try_backend(GetParam(), reason);
      for (int repeat = 0; repeat < 3; ++repeat) result = run_all(*backend, lenet);
    });
  ranks.clear();
  expect_same_bits(results[0].y, results[1].y);
  expect_same_bits(results[0].dx, results[1].dx);
  Results alone = run_all(*backend_, lenet);
  expect_same_bits(results[0].y, alone.y);
  for (std::size_t i = 0; i < alone.gradients.size(); ++i)
    for (std::size_t p = 0; p < alone.gradients[i].size(); ++p) {
      expect_same_bits(results[0].gradients[i][p], results[1].gradients[i][p]);
      expect_same_bits(results[0].gradients[i][p], alone.gradients[i][p]);
    }
}

DISTDL_ON_EACH_BACKEND(Agreement);

/// Activations of 16 bits, or algorithms that round otherwise.
class ShortAgreement : public testing::TestWithParam<std::tuple<std::string, std::string, bool>> {
 protected:
  void SetUp() override {
    std::string reason;
    backend_ = try_backend(std::get<0>(GetParam()), reason, precision(), is_deterministic());
    if (!backend_) GTEST_SKIP() << reason;
  }
  static std::string precision() { return std::get<1>(GetParam()); }
  static bool is_deterministic() { return std::get<2>(GetParam()); }
  /// Largest relative error of rounding; of floats, that of convolutions by Winograd's or Fourier's transform.
  static double rounding() { return precision() == "bf16" ? 0x1p-8 : precision() == "fp16" ? 0x1p-11 : 0x1p-13; }

  /// Whether rounding of one layer's output may tip a maximum or a ReLU of a later one: then single values of a
  /// gradient are others altogether.
  static bool has_kink_within(const LayerCase& layer_case) {
    return std::any_of(layer_case.layers.begin() + 1, layer_case.layers.end(), [](const LayerSpec& spec) {
      return std::holds_alternative<Relu>(spec) || std::holds_alternative<MaxPool2d>(spec);
    });
  }

  /// Near as a whole.
  static void expect_near(const Values& actual, const Values& expected, double tolerance, const std::string& what) {
    ASSERT_EQ(actual.size(), expected.size()) << what;
    double apart = 0, length = 0.01 * static_cast<double>(expected.size());  // some are zero but for rounding
    for (std::size_t i = 0; i < expected.size(); ++i) {
      apart += (double{actual[i]} - expected[i]) * (double{actual[i]} - expected[i]);
      length += double{expected[i]} * expected[i];
    }
    EXPECT_LE(std::sqrt(apart / length), tolerance) << what;
  }
  void expect_near(const LayerCase& layer_case, Backend& reference) {
    SCOPED_TRACE(layer_case.name);
    const auto type = backend_->activation_type();
    const Results actual = run_all(*backend_, layer_case, type), expected = run_all(reference, layer_case, type);
    const double tolerance = 2 * rounding() * static_cast<double>(1 + layer_case.layers.size());
    const double of_gradients = has_kink_within(layer_case) ? 4 * std::sqrt(rounding()) : tolerance;
    expect_near(actual.evaluated, expected.evaluated, tolerance, "evaluation");
    expect_near(actual.y, expected.y, tolerance, "output");
    expect_near(actual.dx, expected.dx, of_gradients, "input gradient");
    for (std::size_t i = 0; i < expected.gradients.size(); ++i)
      for (std::size_t p = 0; p < expected.gradients[i].size(); ++p)
        expect_near(actual.gradients[i][p], expected.gradients[i][p], of_gradients,
                    "layer " + std::to_string(i) + " gradient " + std::to_string(p));
  }

  void expect_near_the_reference() {
    auto reference = make_backend({.backend = "reference"});
    for (const auto& layer_case : all_cases()) expect_near(layer_case, *reference);
  }

  std::unique_ptr<Backend> backend_;
};

TEST_P(ShortAgreement, WithFloatsOfTheReference) {
  expect_near_the_reference();
}

TEST_P(ShortAgreement, OfTwoRunsIsToTheBit) {
  std::string reason;
  auto other = try_backend(std::get<0>(GetParam()), reason, precision());
  for (const auto& layer_case : all_cases()) {
    SCOPED_TRACE(layer_case.name);
    const Results a = run_all(*backend_, layer_case), b = run_all(*other, layer_case);
    expect_same_bits(a.y, b.y);
    expect_same_bits(a.dx, b.dx);
  }
}

INSTANTIATE_TEST_SUITE_P(On, ShortAgreement,
                         testing::Combine(testing::ValuesIn(known_backends()), testing::Values("bf16", "fp16"),
                                          testing::Values(true)),
                         [](const auto& its) { return std::get<0>(its.param) + "_" + std::get<1>(its.param); });

TEST(OneDnnBfloat16, IsMultipliedAsFloatsWhereThatIsFaster) {
  std::string reason;
  const auto shorts = try_backend("onednn", reason, "bf16"), floats = try_backend("onednn", reason);
  if (!shorts) GTEST_SKIP() << reason;
  if (shorts->description().find("by floats") == std::string::npos)
    GTEST_SKIP() << "this processor multiplies bfloat16 faster than floats";
  for (const LayerCase& product : {LayerCase{"linear", {Linear{24}}, {5, 16}},
                                   LayerCase{"conv2d", {Conv2d{.out = 8, .kernel = 3}}, {2, 3, 6, 5}}}) {
    SCOPED_TRACE(product.name);
    const auto type = tensor::DataType::bfloat16;
    const Results actual = run_all(*shorts, product, type);
    Results expected = run_all(*floats, product, type);
    for (Values* values : {&expected.y, &expected.dx}) shorten(*values, type);
    expect_same_bits(actual.y, expected.y);
    expect_same_bits(actual.dx, expected.dx);
    expect_same_bits(actual.gradients[0][0], expected.gradients[0][0]);
  }
}

/// By Winograd's way of distdl: of oneDNN's own convolutions the bytes depend on its version and the instruction set.
TEST(OneDnnConvolutionsInTiles, HaveTheSameBitsOnAnyThreadsAndWithAnyInstructionSet) {
  std::string reason;
  if (!try_backend("onednn", reason)) GTEST_SKIP() << reason;
  const auto one = make_backend({.backend = "onednn"}), three = make_backend({.backend = "onednn", .threads = 3});
  // Compilers differ in which products they fuse with which sums.
  const bool has_known_bits = one->description().find("avx") != std::string::npos && __GNUC__ == 12;
  const std::map<std::string, std::uint32_t> expected{{"ConvOfManyTiles", 0xa965f8f6},
                                                      {"ConvOfManyTilesWithoutPadding", 0xbe52704a},
                                                      {"ConvOfManyTilesWidePadding", 0xfd491c82},
                                                      {"ConvOfManySmallTiles", 0x2a1e1285}};
  std::size_t found = 0;
  for (const auto& layer_case : all_cases()) {
    const auto bits = expected.find(layer_case.name);
    if (bits == expected.end()) continue;
    ++found;
    SCOPED_TRACE(layer_case.name);
    const Results a = run_all(*one, layer_case), b = run_all(*three, layer_case);
    std::vector<std::pair<const Values*, const Values*>> pairs{{&a.y, &b.y}, {&a.dx, &b.dx}};
    for (std::size_t p = 0; p < a.gradients[0].size(); ++p) pairs.emplace_back(&a.gradients[0][p], &b.gradients[0][p]);
    std::uint32_t checksum = 0;
    for (const auto& [first, second] : pairs) {
      expect_same_bits(*first, *second);
      checksum = crc32c(std::as_bytes(std::span(*first)), checksum);
    }
    if (has_known_bits) {
      EXPECT_EQ(bits->second, checksum);
    }
  }
  EXPECT_EQ(expected.size(), found);
}

/// kernels.deterministic = false
class AgreementOfAnyBits : public ShortAgreement {};

TEST_P(AgreementOfAnyBits, WithFloatsOfTheReference) {
  expect_near_the_reference();
}

INSTANTIATE_TEST_SUITE_P(On, AgreementOfAnyBits,
                         testing::Combine(testing::Values("cuda"), testing::Values("fp32", "bf16", "fp16"),
                                          testing::Values(false)),
                         [](const auto& its) { return "cuda_" + std::get<1>(its.param); });
}  // namespace
}  // namespace distdl::kernels::test
