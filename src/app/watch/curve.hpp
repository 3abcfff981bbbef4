// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <distdl/base/console.hpp>

namespace distdl::app {

struct CurvePoint {
  std::int64_t step = 0;
  double value = 0;
};

/// Values by step, of the steps that lasted, in bounded memory: of very many points every second one is kept.
class Curve {
 public:
  /// Points of this step and later ones are of a start that was resumed below them, and are dropped.
  void add(std::int64_t step, double value);
  const std::vector<CurvePoint>& points() const { return points_; }

 private:
  void thin();

  std::vector<CurvePoint> points_;
  std::int64_t gap_ = 0;  ///< least distance of two steps, but for the last one
};

struct ChartSeries {
  const std::vector<CurvePoint>& points;
  Colour colour = Colour::none;
};

struct ChartLook {
  int columns = 40, rows = 8;  ///< with the numbers at the left and the steps below
  bool with_utf8 = true;       ///< braille, else ASCII
  bool with_colour = false;
};

/// Draws series over one range of steps and values, the first as a line, the others as points "o": lines of exactly
/// `columns` columns, the first one with the highest value. Only if there is room, numbers stand at the left and the
/// first and last step below. Values that are not finite are left out; without any other the lines are empty.
std::vector<std::string> draw_chart(std::span<const ChartSeries> series, const ChartLook& look);

}  // namespace distdl::app
