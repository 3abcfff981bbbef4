// SPDX-License-Identifier: Apache-2.0
// distdl checkpoint: diff.
#include <cstring>
#include <limits>

#include <nlohmann/json.hpp>

#include "tests/checkpoint/commands/command_fixture.hpp"

namespace distdl::checkpoint {
namespace {
using testing::HasSubstr;

TEST_F(CheckpointCommand, DiffOfEqualOnesSaysSo) {
  Result result = run("diff " + root.string() + "@10 " + root.string() + "@20");
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.out, HasSubstr("9 tensors are equal, and so is the state"));
}

TEST_F(CheckpointCommand, DiffCountsAndMeasures) {
  Sample sample = make_sample(1);
  auto change = [&](std::size_t tensor, std::size_t element, auto value) {
    std::memcpy(sample[tensor].bytes.data() + element * sizeof value, &value, sizeof value);
  };
  auto get = [&](std::size_t tensor, std::size_t element) {
    double value;
    std::memcpy(&value, sample[tensor].bytes.data() + element * sizeof value, sizeof value);
    return value;
  };
  for (std::size_t i = 0; i < 7; ++i) change(1, i, 2.0);
  sample[4].entry.name = "parameter/vacant";
  ASSERT_TRUE(all_empty(save_as(root, 2, Step(30), sample)));
  change(1, 0, 3.0);
  change(1, 5, 1.5);
  change(1, 6, std::numeric_limits<double>::quiet_NaN());
  sample[4].entry.name = "parameter/void";
  sample[5].entry.shape = {2, 3};
  ASSERT_TRUE(all_empty(save_as(root, 3, Step(40), sample)));
  EXPECT_EQ(get(1, 0), 3.0);
  Result result = run("diff --json " + root.string() + "@30 " + root.string() + "@40");
  EXPECT_EQ(result.code, 0);
  auto found = nlohmann::json::parse(result.out);
  EXPECT_EQ(found["same"], false);
  EXPECT_EQ(found["equal"], 6);
  EXPECT_EQ(found["removed"][0]["name"], "parameter/vacant");
  EXPECT_EQ(found["added"][0]["name"], "parameter/void");
  EXPECT_EQ(found["reshaped"][0]["after"]["shape"], (std::vector<int>{2, 3}));
  ASSERT_EQ(found["changed"].size(), 1u);
  auto changed = found["changed"][0];
  EXPECT_EQ(changed["name"], "parameter/conv1.bias");
  EXPECT_EQ(changed["different"], 3);
  EXPECT_EQ(changed["elements"], 7);
  EXPECT_EQ(changed["not_finite"], 1);
  EXPECT_DOUBLE_EQ(changed["max_abs"].get<double>(), 1.0);
  EXPECT_DOUBLE_EQ(changed["max_rel"].get<double>(), 1.0 / 3.0);
  EXPECT_THAT(run("diff " + root.string() + "@30 " + root.string() + "@40").out,
              testing::AllOf(HasSubstr("- parameter/vacant"), HasSubstr("+ parameter/void"),
                             HasSubstr("f16 (3, 2) became f16 (2, 3)"), HasSubstr("1 not finite")));
}

}  // namespace
}  // namespace distdl::checkpoint
