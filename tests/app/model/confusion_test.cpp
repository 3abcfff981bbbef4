// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <distdl/app/model/confusion.hpp>

namespace distdl::app {
namespace {
ConfusionMatrix of_three_classes() {
  ConfusionMatrix matrix(3);
  for (int i = 0; i < 3; ++i) matrix.add(0, 0);
  matrix.add(0, 1);
  matrix.add(1, 1);
  return matrix;
}

TEST(ConfusionMatrix, TellsWhatEachClassIsTakenFor) {
  EXPECT_EQ(of_three_classes().text(),
            "CLASS  SAMPLES  RECALL  PRECISION    TAKEN FOR\n"
            "0            4   75.0%     100.0%  1 (1 times)\n"
            "1            1  100.0%      50.0%            -\n"
            "2            0       -          -            -\n"
            "\n"
            "samples of each label by the class that was predicted\n"
            "LABEL  0  1  2\n"
            "0      3  1  .\n"
            "1      .  1  .\n"
            "2      .  .  .\n");
}

TEST(ConfusionMatrix, HasUndefinedFiguresAsNull) {
  const auto json = of_three_classes().json();
  EXPECT_EQ(json["confusion"].dump(), "[[3,1,0],[0,1,0],[0,0,0]]");
  EXPECT_EQ(json["classes"][2].dump(), R"({"class":2,"samples":0,"recall":null,"precision":null})");
  EXPECT_EQ(json["classes"][1]["precision"], 0.5);
}

TEST(ConfusionMatrix, OfManyClassesIsATableOnly) {
  const auto text = ConfusionMatrix(21).text();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 22);
}
}  // namespace
}  // namespace distdl::app
