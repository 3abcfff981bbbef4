// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <distdl/checkpoint/fit.hpp>

namespace distdl::checkpoint {
namespace {
using tensor::DataType;
using Names = std::vector<std::string>;

TEST(Fit, TellsWhatMatchesWhatLacksAndWhatIsTooMuch) {
  Summary summary;
  summary.tensors = {{"a", DataType::float32, {2}},
                     {"b", DataType::float32, {3}},
                     {"c", DataType::float32, {4}},
                     {"d", DataType::float32, {}}};
  std::vector<Target> targets{{"e", DataType::float32, {1}, {}, nullptr},
                              {"c", DataType::float32, {5}, {}, nullptr},
                              {"b", DataType::float64, {3}, {}, nullptr},
                              {"a", DataType::float32, {2}, {{0}, {1}}, nullptr},
                              {"a", DataType::float32, {2}, {{1}, {1}}, nullptr}};
  Fit found = fit(summary, targets);
  EXPECT_FALSE(found.exact());
  EXPECT_EQ(found.matching, Names{"a"});
  EXPECT_EQ(found.missing, Names{"e"});
  EXPECT_EQ(found.unused, Names{"d"});
  ASSERT_EQ(found.mismatched.size(), 2u);
  EXPECT_EQ(found.mismatched[0].found, (TensorEntry{"b", DataType::float32, {3}}));
  EXPECT_EQ(found.mismatched[1].wanted, (TensorEntry{"c", DataType::float32, {5}}));
  EXPECT_TRUE(fit(Summary{}, {}).exact());
}

TEST(Fit, LongListsAreShortened) {
  EXPECT_EQ(shortened({}, 2), "");
  EXPECT_EQ(shortened({"a", "b"}, 2), "a, b");
  EXPECT_EQ(shortened({"a", "b", "c", "d"}, 2), "a, b and 2 more");
}
}  // namespace
}  // namespace distdl::checkpoint
