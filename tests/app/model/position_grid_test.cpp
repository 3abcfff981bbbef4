// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <distdl/app/model/position_grid.hpp>

namespace distdl::app {
namespace {
TEST(PositionGrid, IsSquareBehindTheClassToken) {
  EXPECT_EQ(square_grid(197), (PositionGrid{14, 14}));
  EXPECT_EQ(square_grid(2), (PositionGrid{1, 1}));
  for (const std::int64_t rows : {0, 1, 3, 196, 198}) EXPECT_EQ(square_grid(rows), PositionGrid{}) << rows;
}

// The numbers are those of timm 1.0's resample_abs_pos_embed().
TEST(PositionGrid, IsInterpolatedAsInTimm) {
  std::vector<float> rows;
  for (int i = 0; i < 10; ++i)
    for (int v = 0; v < 2; ++v) rows.push_back(static_cast<float>((i * 7 + 3 * v) % 11));
  const auto near = [](const std::vector<float>& expected) {
    return testing::Pointwise(testing::FloatNear(2e-6f), expected);
  };
  EXPECT_THAT(resampled_positions(rows, {3, 3}, {3, 3}), near(rows));
  EXPECT_THAT(resampled_positions(rows, {3, 3}, {2, 2}),
              near({0, 3, 5.00963f, 8.451043f, 7.080256f, 2.929374f, 3.629213f, 7.070625f, 5.699839f, 1.548956f}));
  EXPECT_THAT(resampled_positions(rows, {3, 3}, {4, 5}),
              near({0,         3,         7.354125f, 10.354126f, 5.335821f, 8.828359f, 3.052239f, 6.052238f, 7.417912f,
                    3.276119f, 10.58054f, 1.750352f, 6.745291f,  9.745292f, 4.726987f, 8.219525f, 2.443405f, 5.443405f,
                    6.809077f, 2.667285f, 9.971706f, 1.141518f,  5.858481f, 8.858481f, 3.840177f, 7.332715f, 1.556595f,
                    4.556595f, 5.922267f, 1.780475f, 9.084896f,  0.254708f, 5.249648f, 8.249648f, 3.231343f, 6.72388f,
                    0.947761f, 3.947761f, 5.313434f, 1.171641f,  8.476063f, -0.354125f}));
}
}  // namespace
}  // namespace distdl::app
