// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <distdl/optim/stretches.hpp>

namespace distdl::optim {
namespace {
using ::testing::ElementsAre;
using ::testing::FieldsAre;

tensor::ArenaLayout layout() {
  tensor::ArenaLayout layout;
  layout.add("conv", {2, 3});  // each tensor takes 16 places
  layout.add("fc", {3, 4});
  layout.add("bias", {3});
  layout.add("scale", {});
  layout.add("mean", {5}, tensor::Role::statistic);
  layout.add("variance", {5}, tensor::Role::statistic);
  layout.add("last", {7});
  return layout;
}

auto stretch(std::size_t offset, std::size_t count, bool decays, bool adapts) {
  return FieldsAre(offset, count, FieldsAre(decays, adapts));
}

TEST(Stretches, NeighboursOfOneRoleAreOne) {
  EXPECT_THAT(stretches_of(layout(), tensor::Role::parameter),
              ElementsAre(stretch(0, 49, true, false), stretch(96, 7, true, false)));
  EXPECT_THAT(stretches_of(layout(), tensor::Role::statistic), ElementsAre(stretch(64, 21, true, false)));
}

TEST(Stretches, NeighboursThatDecayAlikeAreOne) {
  EXPECT_THAT(stretches_by_dimensions(layout(), {}, false),
              ElementsAre(stretch(0, 28, true, false), stretch(32, 17, false, false), stretch(96, 7, false, false)));
  EXPECT_THAT(stretches_by_dimensions(layout(), {.decay_one_dimensional = true}, false),
              ElementsAre(stretch(0, 49, true, false), stretch(96, 7, true, false)));
}

TEST(Stretches, EachTensorThatAdaptsIsOne) {
  EXPECT_THAT(stretches_by_dimensions(layout(), {}, true),
              ElementsAre(stretch(0, 6, true, true), stretch(16, 12, true, true), stretch(32, 17, false, false),
                          stretch(96, 7, false, false)));
  EXPECT_THAT(stretches_by_dimensions(layout(), {.decay_one_dimensional = true}, true),
              ElementsAre(stretch(0, 6, true, true), stretch(16, 12, true, true), stretch(32, 17, true, false),
                          stretch(96, 7, true, false)));
}
}  // namespace
}  // namespace distdl::optim
