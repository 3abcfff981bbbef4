// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <distdl/checkpoint/fit.hpp>

namespace distdl::checkpoint {
namespace {
using tensor::DType;
using Names = std::vector<std::string>;

TEST(Fit, TellsWhatMatchesWhatLacksAndWhatIsTooMuch) {
  Summary summary;
  summary.tensors = {{"a", DType::f32, {2}}, {"b", DType::f32, {3}}, {"c", DType::f32, {4}}, {"d", DType::f32, {}}};
  std::vector<Target> targets{{"e", DType::f32, {1}, {}, nullptr},
                              {"c", DType::f32, {5}, {}, nullptr},
                              {"b", DType::f64, {3}, {}, nullptr},
                              {"a", DType::f32, {2}, {{0}, {1}}, nullptr},
                              {"a", DType::f32, {2}, {{1}, {1}}, nullptr}};
  Fit found = fit(summary, targets);
  EXPECT_FALSE(found.exact());
  EXPECT_EQ(found.matching, Names{"a"});
  EXPECT_EQ(found.missing, Names{"e"});
  EXPECT_EQ(found.unused, Names{"d"});
  ASSERT_EQ(found.mismatched.size(), 2u);
  EXPECT_EQ(found.mismatched[0].found, (TensorEntry{"b", DType::f32, {3}}));
  EXPECT_EQ(found.mismatched[1].wanted, (TensorEntry{"c", DType::f32, {5}}));
  EXPECT_TRUE(fit(Summary{}, {}).exact());
}

TEST(Fit, LongListsAreShortened) {
  EXPECT_EQ(shortened({}, 2), "");
  EXPECT_EQ(shortened({"a", "b"}, 2), "a, b");
  EXPECT_EQ(shortened({"a", "b", "c", "d"}, 2), "a, b and 2 more");
}
}  // namespace
}  // namespace distdl::checkpoint
