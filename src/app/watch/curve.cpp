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

/// The range of steps, and of the finite values; of equal values a range around them. Without any it is empty.
struct Ranges {
  double first = 0, last = 0, least = 0, most = 0;
  bool is_empty = true;
  explicit Ranges(std::span<const ChartSeries> all) {
    for (const auto& series : all)
      for (const auto& point : series.points)
        if (std::isfinite(point.value)) add(static_cast<double>(point.step), point.value);
    if (most > least) return;
    const double margin = std::max(std::abs(most) / 100, 1e-6);
    least -= margin;
    most += margin;
  }

 private:
  void add(double step, double value) {
    first = is_empty ? step : std::min(first, step);
    last = is_empty ? step : std::max(last, step);
    least = is_empty ? value : std::min(least, value);
    most = is_empty ? value : std::max(most, value);
    is_empty = false;
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

/// A column of dots shows all values of its steps. `joins`: neighbours are joined, however far apart they are.
void plot_points(Dots& dots, const std::vector<CurvePoint>& points, const Ranges& range, bool joins) {
  const int right = dots.width() - 1, bottom = dots.height() - 1;
  std::optional<std::pair<int, int>> before;
  for (const auto& point : points) {
    if (!std::isfinite(point.value)) continue;
    const auto step = static_cast<double>(point.step);
    const double along = range.last > range.first ? (step - range.first) / (range.last - range.first) : 0;
    const double up = point.value / (range.most - range.least) - range.least / (range.most - range.least);
    const int x = std::clamp(static_cast<int>(std::lround(along * right)), 0, right);
    const int y = std::clamp(static_cast<int>(std::lround((1 - up) * bottom)), 0, bottom);
    if (!before || !joins) dots.set(x, y);
    for (int from = before ? before->second : y, at = before ? before->first : x; joins && before && at <= x; ++at) {
      const double part = x > before->first ? static_cast<double>(at - before->first) / (x - before->first) : 1;
      const int to = before->second + static_cast<int>(std::lround(part * (y - before->second)));
      dots.join(at, from, to);
      from = to;
    }
    before = {x, y};
  }
}

/// Unicode's braille characters have 2 x 4 dots, a bit for each.
std::string braille_cell(const Dots& dots, int column, int row) {
  static constexpr unsigned kBits[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
  unsigned code = 0;
  for (int y = 0; y < 4; ++y)
    for (int x = 0; x < 2; ++x)
      if (dots(column * 2 + x, row * 4 + y)) code |= kBits[y][x];
  return code == 0 ? std::string(" ") : utf8_of(0x2800 + code);
}

/// Two dots, one above the other.
std::string ascii_cell(const Dots& dots, int column, int row) {
  const bool above = dots(column, row * 2), below = dots(column, row * 2 + 1);
  return above && below ? ":" : above ? "'" : below ? "." : " ";
}

/// A series as it is drawn.
struct Layer {
  Dots dots;
  Colour colour;
};

/// Points of later series lie above the line of the first.
std::string drawn_line(const std::vector<Layer>& layers, int row, int columns, const ChartLook& look) {
  std::string line, run;
  Colour colour_of_run = Colour::none;
  const auto end_run = [&] {
    line += coloured(run, look.with_colour ? colour_of_run : Colour::none);
    run.clear();
  };
  for (int column = 0; column < columns; ++column) {
    std::string cell = " ";
    Colour colour = colour_of_run;
    for (std::size_t i = layers.size(); i-- > 0 && cell == " ";) {
      cell = look.with_utf8 ? braille_cell(layers[i].dots, column, row) : ascii_cell(layers[i].dots, column, row);
      if (cell == " ") continue;
      colour = layers[i].colour;
      if (i > 0) cell = "o";
    }
    if (colour != colour_of_run) end_run();
    colour_of_run = colour;
    run += cell;
  }
  end_run();
  return line;
}

constexpr std::size_t kLabelWidth = 7;

/// The numbers at the ends of an axis, which differ and take at most kLabelWidth columns: "7.08k", "0.12", "1e-05".
std::string axis_text(double value, const Ranges& range) {
  static constexpr std::pair<double, const char*> kUnits[] = {{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}};
  constexpr double kLeastWithUnit = 1e4, kMostWithUnit = 1e15, kLeastPlain = 1e-3, kParts = 50;
  const double greatest = std::max(std::abs(range.least), std::abs(range.most));
  if (value == 0) return "0";
  if (greatest >= kMostWithUnit || greatest < kLeastPlain) {
    const auto text = fmt::format("{:.1e}", value);
    return text.size() <= kLabelWidth ? text : fmt::format("{:.0e}", value);
  }
  std::pair<double, const char*> unit{1, ""};
  for (const auto& each : kUnits)
    if (greatest >= kLeastWithUnit && unit.first == 1 && greatest >= each.first) unit = each;
  int decimals = 0;
  for (double spread = (range.most - range.least) / unit.first; spread < kParts && decimals < 5; spread *= 10)
    ++decimals;
  auto text = fmt::format("{:.{}f}{}", value / unit.first, decimals, unit.second);
  while (text.size() > kLabelWidth && decimals > 0)
    text = fmt::format("{:.{}f}{}", value / unit.first, --decimals, unit.second);
  return text;
}

/// "step 0            1000".
std::string step_axis(const Ranges& range, int columns) {
  const auto first = fmt::format("step {:.0f}", range.first), last = fmt::format("{:.0f}", range.last);
  const int between = columns - width_of(first) - width_of(last);
  if (range.is_empty || between < 1) return blanks(columns);
  return first + blanks(between) + last;
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

std::vector<std::string> draw_chart(std::span<const ChartSeries> series, const ChartLook& look) {
  constexpr int kScale = static_cast<int>(kLabelWidth) + 1, kLeastChart = 10, kLeastRows = 3;
  const int columns = std::max(0, look.columns);
  int rows = std::max(0, look.rows);
  std::vector<std::string> lines(static_cast<std::size_t>(rows), blanks(columns));
  const int scale = columns >= kScale + kLeastChart ? kScale : 0, chart = columns - scale;
  const Ranges range(series);
  if (range.is_empty || rows == 0 || chart == 0) return lines;
  if (scale > 0 && rows > kLeastRows) {
    --rows;
    lines.back() = blanks(scale) + step_axis(range, chart);
  }
  std::vector<Layer> layers;
  for (const auto& each : series) {
    layers.push_back({look.with_utf8 ? Dots(2 * chart, 4 * rows) : Dots(chart, 2 * rows), each.colour});
    plot_points(layers.back().dots, each.points, range, layers.size() == 1);
  }
  for (int row = 0; row < rows; ++row) {
    const auto number = row == 0          ? axis_text(range.most, range)
                        : row == rows - 1 ? axis_text(range.least, range)
                                          : std::string();
    auto& line = lines[static_cast<std::size_t>(row)];
    line = scale > 0 ? fmt::format("{:>{}} ", number, kLabelWidth) : std::string();
    line += drawn_line(layers, row, chart, look);
  }
  return lines;
}

}  // namespace distdl::app
