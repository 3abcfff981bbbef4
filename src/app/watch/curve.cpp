// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include <distdl/app/watch/curve.hpp>

namespace distdl::app {
namespace {
constexpr std::size_t kMostPoints = 4096;

std::string blanks(int count) {
  return std::string(static_cast<std::size_t>(std::max(0, count)), ' ');
}

/// UTF-8 of a character of the Basic Multilingual Plane above U+07FF.
std::string utf8_of(unsigned code) {
  return {static_cast<char>(0xe0 | (code >> 12)), static_cast<char>(0x80 | ((code >> 6) & 0x3f)),
          static_cast<char>(0x80 | (code & 0x3f))};
}

/// The least and greatest value; of equal ones a range around them.
struct ValueRange {
  double least, most;
  explicit ValueRange(const std::vector<CurvePoint>& points) : least(points.front().value), most(least) {
    for (const auto& point : points) {
      least = std::min(least, point.value);
      most = std::max(most, point.value);
    }
    if (most > least) return;
    const double margin = std::max(std::abs(most) / 100, 1e-6);
    least -= margin;
    most += margin;
  }
};

/// A raster of dots, which begins at the upper left.
class Dots {
 public:
  Dots(int width, int height)
      : width_(width), height_(height), set_(static_cast<std::size_t>(width) * static_cast<std::size_t>(height)) {}
  bool operator()(int x, int y) const { return set_[place(x, y)]; }
  void set(int x, int y) { set_[place(x, y)] = true; }
  /// A vertical line from one height to another.
  void join(int x, int y, int to) {
    for (int i = std::min(y, to); i <= std::max(y, to); ++i) set(x, i);
  }
  int width() const { return width_; }
  int height() const { return height_; }

 private:
  std::size_t place(int x, int y) const {
    return static_cast<std::size_t>(y) * static_cast<std::size_t>(width_) + static_cast<std::size_t>(x);
  }
  int width_, height_;
  std::vector<bool> set_;
};

/// A column of dots shows all values of its steps; neighbours are joined.
void plot_points(Dots& dots, const std::vector<CurvePoint>& points, const ValueRange& range) {
  const auto first = static_cast<double>(points.front().step), last = static_cast<double>(points.back().step);
  const int right = dots.width() - 1, bottom = dots.height() - 1;
  std::optional<std::pair<int, int>> before;
  for (const auto& point : points) {
    const double along = last > first ? (static_cast<double>(point.step) - first) / (last - first) : 0;
    const double up = (point.value - range.least) / (range.most - range.least);
    const int x = std::clamp(static_cast<int>(std::lround(along * right)), 0, right);
    const int y = std::clamp(static_cast<int>(std::lround((1 - up) * bottom)), 0, bottom);
    if (before && x - before->first <= 1)
      dots.join(x, before->second, y);
    else if (before)
      for (int between = before->first + 1; between < x; ++between) {
        const double part = static_cast<double>(between - before->first) / (x - before->first);
        dots.set(between, before->second + static_cast<int>(std::lround(part * (y - before->second))));
      }
    dots.set(x, y);
    before = {x, y};
  }
}

/// Unicode's braille characters have 2 x 4 dots, a bit for each.
std::string braille_line(const Dots& dots, int row) {
  static constexpr unsigned kBits[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
  std::string line;
  for (int column = 0; column < dots.width() / 2; ++column) {
    unsigned code = 0;
    for (int y = 0; y < 4; ++y)
      for (int x = 0; x < 2; ++x)
        if (dots(column * 2 + x, row * 4 + y)) code |= kBits[y][x];
    line += code == 0 ? std::string(" ") : utf8_of(0x2800 + code);
  }
  return line;
}

/// Two dots, one above the other, in each character.
std::string ascii_line(const Dots& dots, int row) {
  std::string line;
  for (int x = 0; x < dots.width(); ++x) {
    const bool above = dots(x, row * 2), below = dots(x, row * 2 + 1);
    line += above && below ? ':' : above ? '\'' : below ? '.' : ' ';
  }
  return line;
}

std::string scale_text(double value) {
  return fmt::format("{:.3g}", value);
}
}  // namespace

void Curve::add(std::int64_t step, double value) {
  while (!points_.empty() && points_.back().step >= step) points_.pop_back();
  const auto count = points_.size();
  if (count >= 2 && step - points_[count - 2].step < gap_)
    points_.back() = {step, value};
  else
    points_.push_back({step, value});
  if (points_.size() > kMostPoints) thin();
}

void Curve::thin() {
  const auto span = points_.back().step - points_.front().step;
  gap_ = std::max<std::int64_t>(2 * gap_, 2 * span / static_cast<std::int64_t>(kMostPoints));
  const std::vector<CurvePoint> all = std::exchange(points_, {});
  for (const auto& point : all) add(point.step, point.value);
}

std::vector<std::string> draw_chart(const std::vector<CurvePoint>& points, const ChartLook& look) {
  constexpr int kScale = 8, kLeastChart = 10;  // columns
  const int columns = std::max(0, look.columns), rows = std::max(0, look.rows);
  std::vector<std::string> lines(static_cast<std::size_t>(rows), blanks(columns));
  const int scale = columns >= kScale + kLeastChart ? kScale : 0, chart = columns - scale;
  if (points.empty() || rows == 0 || chart == 0) return lines;
  const ValueRange range(points);
  Dots dots(look.with_utf8 ? 2 * chart : chart, look.with_utf8 ? 4 * rows : 2 * rows);
  plot_points(dots, points, range);
  for (int row = 0; row < rows; ++row) {
    const auto number = row == 0 ? scale_text(range.most) : row == rows - 1 ? scale_text(range.least) : std::string();
    auto& line = lines[static_cast<std::size_t>(row)];
    line = scale > 0 ? fmt::format("{:>7.7} ", number) : std::string();
    line += look.with_utf8 ? braille_line(dots, row) : ascii_line(dots, row);
  }
  return lines;
}

}  // namespace distdl::app
