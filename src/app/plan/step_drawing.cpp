// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/format.h>

#include <distdl/app/plan/step_drawing.hpp>

namespace distdl::app {
namespace {
namespace pipeline = parallel::pipeline;

constexpr double kStepWidth = 1000, kStepLeft = 60, kStepMargin = 20;  // in pixels
constexpr double kRankHeight = 22, kCharacterWidth = 6.5;

/// The colours differ in lightness too, and black text has a contrast of at least 9 on each.
constexpr const char* kStepStyle =
    "text{font:11px sans-serif;fill:#111}.m{text-anchor:middle}.i{fill:#ececec}.f{fill:#8ecbff}.b{fill:#ffb35c}"
    ".w{fill:#d8f0a3}.f,.b,.w{stroke:#333;stroke-width:.5}";

const char* class_of(pipeline::Kind kind) {
  return kind == pipeline::Kind::forward ? "f" : kind == pipeline::Kind::backward_weight ? "w" : "b";
}

std::string box(const char* kind, double x, double width, const std::string& text) {
  auto svg = fmt::format("<rect class=\"{}\" x=\"{:.1f}\" width=\"{:.1f}\" height=\"{}\"/>\n", kind, x, width,
                         kRankHeight - 4);
  if (!text.empty() && kCharacterWidth * static_cast<double>(text.size()) < width)
    svg += fmt::format("<text class=\"m\" x=\"{:.1f}\" y=\"13\">{}</text>\n", x + width / 2, text);
  return svg;
}

/// A row of boxes.
std::string placed_row(double y, const std::string& content) {
  return fmt::format("<g transform=\"translate({},{:.1f})\">\n{}</g>\n", kStepLeft, y, content);
}

std::string title_of(const PlannedStep& step) {
  const auto peaks = pipeline::peak_activations(step.schedule);
  const auto& shape = step.schedule.shape;
  return fmt::format("{}: step {:.6g}, bubble {:.1f}%, at most {} activations{}", OneOf(step.schedule.algorithm).name(),
                     step.timeline.seconds, 100 * step.timeline.bubble(), *std::max_element(peaks.begin(), peaks.end()),
                     shape.interleave > 1 ? fmt::format(" of 1/{} of a rank's layers each", shape.interleave) : "");
}

std::string legend_of_kinds() {
  std::string svg;
  double x = 0;
  for (const auto& [kind, name] : {std::pair("f", "forward"), std::pair("b", "backward (zero-bubble: of the input)"),
                                   std::pair("w", "backward of the weights"), std::pair("i", "idle")}) {
    svg += box(kind, x, 18, "") + fmt::format("<text x=\"{:.1f}\" y=\"13\">{}</text>\n", x + 24, name);
    x += 60 + kCharacterWidth * static_cast<double>(std::string_view(name).size());
  }
  return svg;
}
}  // namespace

std::string draw_steps(const std::vector<PlannedStep>& steps) {
  double longest = 0, y = kStepMargin;
  for (const auto& step : steps) longest = std::max(longest, step.timeline.seconds);
  const double scale = kStepWidth / longest;
  std::string body;
  for (const auto& step : steps) {
    body += fmt::format("<text x=\"{}\" y=\"{:.1f}\" font-weight=\"bold\">{}</text>\n", kStepMargin, y + 12,
                        title_of(step));
    y += kRankHeight;
    for (std::size_t rank = 0; rank < step.timeline.spans.size(); ++rank, y += kRankHeight) {
      auto row = fmt::format("<text x=\"-40\" y=\"13\">rank {}</text>\n", rank) +
                 box("i", 0, step.timeline.seconds * scale, "");
      for (std::size_t i = 0; i < step.timeline.spans[rank].size(); ++i) {
        const auto& [begin, end] = step.timeline.spans[rank][i];
        const auto& operation = step.schedule.operations[rank][i];
        row += box(class_of(operation.kind), begin * scale, (end - begin) * scale, label_of(step, operation));
      }
      body += placed_row(y, row);
    }
    y += kStepMargin;
  }
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 "
      "{0:.0f} "
      "{1:.0f}\">\n<title>Pipeline schedules</title>\n<style>{2}</style>\n<rect width=\"100%\" height=\"100%\" "
      "fill=\"white\"/>\n{3}{4}</svg>\n",
      kStepLeft + kStepWidth + kStepMargin, y + kRankHeight + kStepMargin, kStepStyle, body,
      placed_row(y, legend_of_kinds()));
}

}  // namespace distdl::app
