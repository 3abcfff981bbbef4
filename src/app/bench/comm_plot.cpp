// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include <distdl/app/bench/comm_plot.hpp>

namespace distdl::app {
namespace {
constexpr double kWidth = 420, kHeight = 300;                            // of a diagram's frame, in pixels
constexpr double kLeft = 80, kTop = 50, kGap = 110, kBetweenRows = 100;  // around it
constexpr const char* kColours[] = {"#1f5fbf", "#c8442c", "#e39a1f", "#5b8c3a", "#7a4fa3", "#5a5a5a"};

struct Line {
  std::string name, colour, style;
  std::vector<std::pair<double, double>> points;
};

struct Axis {
  double low = std::numeric_limits<double>::max(), high = 0;
  void hold(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  /// To full powers of `base`.
  void widen(double base) {
    low = std::pow(base, std::floor(std::log(low) / std::log(base) + 1e-9));
    high = std::pow(base, std::ceil(std::log(high) / std::log(base) - 1e-9));
    if (high <= low) high = low * base;
  }
  /// 0 to 1.
  double at(double value) const { return std::log(value / low) / std::log(high / low); }
};

std::string escaped(const std::string& text) {
  std::string safe;
  for (char c : text) safe += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : std::string(1, c);
  return safe;
}

std::string label(double x, double y, const char* anchor, const std::string& text, const char* more = "") {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>\n", x, y, anchor, more,
                     escaped(text));
}

std::string seconds_text(double seconds) {
  if (seconds < 0.9e-6) return fmt::format("{:g} ns", std::round(seconds * 1e10) / 10);
  if (seconds < 0.9e-3) return fmt::format("{:g} us", std::round(seconds * 1e7) / 10);
  return seconds < 0.9 ? fmt::format("{:g} ms", std::round(seconds * 1e4) / 10) : fmt::format("{:g} s", seconds);
}

std::string rate_text(double rate) {
  return rate < 0.9e9 ? fmt::format("{:g} MB/s", rate / 1e6) : fmt::format("{:g} GB/s", rate / 1e9);
}

/// Values of the lines of a grid: the low end, and each `factor` times the one before, up to the high end.
std::vector<double> marks(const Axis& axis, double factor) {
  std::vector<double> values;
  double next = axis.low;
  while (next <= axis.high * 1.001) {
    values.push_back(next);
    next *= factor;
  }
  return values;
}

/// A frame at (left, top) with its grid, its title, and the lines.
template <class Text>
std::string diagram(double left, double top, const std::string& title, const std::vector<Line>& lines, Text&& unit) {
  Axis x, y;
  for (const auto& line : lines)
    for (auto [size, value] : line.points) {
      x.hold(size);
      y.hold(value);
    }
  x.widen(2);
  y.widen(10);
  auto svg = label(left, top - 10, "start", title, " font-weight=\"bold\"");
  const double step = std::max(2.0, std::pow(2, std::ceil(std::log2(x.high / x.low) / 7)));
  for (const double size : marks(x, step)) {
    const double at = left + x.at(size) * kWidth;
    svg += fmt::format("<path d=\"M{:.1f} {:.1f}v{:.1f}\" stroke=\"#ddd\"/>\n", at, top, kHeight);
    svg += label(at, top + kHeight + 18, "middle", size_text(static_cast<std::size_t>(size)));
  }
  for (const double value : marks(y, 10)) {
    const double at = top + (1 - y.at(value)) * kHeight;
    svg += fmt::format("<path d=\"M{:.1f} {:.1f}h{:.1f}\" stroke=\"#ddd\"/>\n", left, at, kWidth);
    svg += label(left - 8, at + 4, "end", unit(value));
  }
  svg += fmt::format(
      "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"none\" stroke=\"#444\"/>\n", left, top,
      kWidth, kHeight);
  for (const auto& line : lines) {
    std::string path;
    for (auto [size, value] : line.points)
      path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", left + x.at(size) * kWidth,
                          top + (1 - y.at(value)) * kHeight);
    svg += fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"{}><title>{}</title></path>\n",
                       path, line.colour, line.style, escaped(line.name));
  }
  return svg;
}

std::string legend(double left, double top, const std::vector<Line>& lines) {
  std::string svg;
  for (const auto& line : lines) {
    svg += fmt::format("<path d=\"M{:.1f} {:.1f}h24\" stroke=\"{}\" stroke-width=\"2\"{}/>\n", left, top - 4,
                       line.colour, line.style);
    svg += label(left + 30, top, "start", line.name);
    left += 60 + 7.5 * static_cast<double>(line.name.size());
  }
  return svg;
}

/// Lines of all libraries and of the measured limit: value(point, seconds) over size.
template <class Value>
std::vector<Line> lines_of(const std::vector<const CommPoint*>& points, const std::vector<std::string>& peers,
                           Value&& value) {
  std::vector<Line> lines{{"distdl", kColours[0], "", {}}};
  for (std::size_t i = 0; i < peers.size(); ++i)
    lines.push_back({peers[i], kColours[(i + 1) % std::size(kColours)], "", {}});
  lines.push_back({"measured limit", "#999", " stroke-dasharray=\"6 4\"", {}});
  for (const auto* point : points) {
    const auto size = static_cast<double>(point->bytes);
    lines[0].points.emplace_back(size, value(*point, point->ours.median()));
    for (const auto& peer : point->peers)
      for (auto& line : lines)
        if (line.name == peer.name && !peer.rounds.seconds.empty())
          line.points.emplace_back(size, value(*point, peer.rounds.median()));
    if (const double limit = point->limit.median(); limit > 0)
      lines.back().points.emplace_back(size, value(*point, limit));
  }
  std::erase_if(lines, [](const Line& line) { return line.points.empty(); });
  return lines;
}
}  // namespace

std::string plot(const CommReport& report) {
  std::vector<std::string> peers;
  for (const auto& [name, version] : report.peers) peers.push_back(name);
  std::string body;
  double top = kTop;
  std::vector<Operation> operations;
  for (const auto& point : report.points)
    if (operations.empty() || operations.back() != point.operation) operations.push_back(point.operation);
  for (const auto operation : operations) {
    std::vector<const CommPoint*> points;
    for (const auto& point : report.points)
      if (point.operation == operation && point.bytes > 0) points.push_back(&point);
    if (points.empty()) continue;
    const auto times = lines_of(points, peers, [](const CommPoint&, double seconds) { return seconds; });
    const auto rates = lines_of(points, peers, [&](const CommPoint& point, double seconds) {
      return bus_bandwidth(point, seconds, report.ranks);
    });
    const auto title = fmt::format("{}, {} ranks on {} node{}", name_of(operation), report.ranks, report.nodes,
                                   report.nodes == 1 ? "" : "s");
    body += diagram(kLeft, top, title + ": time", times, seconds_text);
    body += diagram(kLeft + kWidth + kGap, top, title + ": bus bandwidth", rates, rate_text);
    body += legend(kLeft, top + kHeight + 45, times);
    top += kHeight + kBetweenRows;
  }
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} "
             "{1:.0f}\" font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" "
             "fill=\"white\"/>\n",
             kLeft + 2 * kWidth + kGap + 40, top) +
         body + "</svg>\n";
}

}  // namespace distdl::app
