// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

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

struct ChartLook {
  int columns = 40, rows = 8;  ///< with the numbers at the left
  bool with_utf8 = true;       ///< braille, else ASCII
};

/// Draws the points as a chart: lines of exactly `columns` columns, the first one with the highest value. Only if there
/// is room, numbers stand at the left. An empty list gives empty lines.
std::vector<std::string> draw_chart(const std::vector<CurvePoint>& points, const ChartLook& look);

}  // namespace distdl::app
