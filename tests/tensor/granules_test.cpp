// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <distdl/tensor/granules.hpp>

namespace distdl::tensor {
namespace {
using testing::ElementsAre;
using testing::IsEmpty;

TEST(Granules, GetMemoryWhereTheyAreTouched) {
  Granules granules(95, 10);
  EXPECT_THAT(granules.commit(5, 5), IsEmpty());
  EXPECT_THAT(granules.commit(15, 31), ElementsAre(Granules::Run{1, 3}));
  EXPECT_THAT(granules.commit(40, 50), ElementsAre(Granules::Run{4, 1}));
  EXPECT_THAT(granules.commit(0, 95), ElementsAre(Granules::Run{0, 1}, Granules::Run{5, 5}))
      << "only those that had none";
  EXPECT_EQ(granules.committed(), 10U);
}

TEST(Granules, LoseMemoryWhereTheyLieWithin) {
  Granules granules(95, 10);
  granules.commit(10, 95);
  EXPECT_THAT(granules.discard(31, 39), IsEmpty());
  EXPECT_THAT(granules.discard(25, 59), ElementsAre(Granules::Run{3, 2}));
  EXPECT_THAT(granules.discard(0, 40), ElementsAre(Granules::Run{1, 2}));
  EXPECT_THAT(granules.all_committed(), ElementsAre(Granules::Run{5, 5}));
  EXPECT_THAT(granules.discard(70, 95), ElementsAre(Granules::Run{7, 3})) << "the last one reaches beyond the end";
  EXPECT_EQ(granules.committed(), 2U);
}
}  // namespace
}  // namespace distdl::tensor
