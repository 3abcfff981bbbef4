// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <distdl/app/plan/step_chart.hpp>

namespace distdl::app {
namespace {
namespace pipeline = parallel::pipeline;

/// How the chart shows a kind of operation.
struct ChartKind {
  char letter, filler;
  const char* colour;
};
const ChartKind& chart_kind(pipeline::Kind kind) {
  static constexpr ChartKind kForward{'F', '-', "\033[30;46m"}, kBackward{'B', '=', "\033[30;43m"},
      kWeight{'W', '~', "\033[30;42m"};
  return kind == pipeline::Kind::forward ? kForward : kind == pipeline::Kind::backward_weight ? kWeight : kBackward;
}

constexpr int kMostColumns = 4;    ///< most columns for the shortest operation
constexpr int kLeastColumns = 20;  ///< least columns for the step

/// Columns of the step in `room`: a whole number for the shortest operation, if they suffice for it.
int columns_of(const PlannedStep& step, int room) {
  double shortest = step.timeline.seconds;
  for (const auto& spans : step.timeline.spans)
    for (const auto& span : spans) shortest = std::min(shortest, span.end - span.begin);
  const double units = step.timeline.seconds / shortest;
  const int each = static_cast<int>(std::min<double>(kMostColumns, std::floor(room / units)));
  return each < 1 ? room : static_cast<int>(std::lround(units * each));
}

/// `columns` of an operation. A label that has no room is left out.
std::string cell(const PlannedStep& step, const pipeline::Operation& operation, std::size_t columns, bool colour) {
  const ChartKind& kind = chart_kind(operation.kind);
  std::string text = kind.letter + label_of(step, operation);
  if (text.size() > columns) text = kind.letter;
  text.resize(columns, kind.filler);
  return colour ? kind.colour + text + "\033[0m" : text;
}

std::string rank_row(const PlannedStep& step, std::size_t rank, int columns, bool colour) {
  const double scale = columns / step.timeline.seconds;
  // An operation has the columns whose middle it contains.
  const auto column = [&](double time) {
    return static_cast<int>(std::clamp(std::ceil(time * scale - 0.5 - 1e-9), 0.0, static_cast<double>(columns)));
  };
  std::string line;
  int at = 0;
  for (std::size_t i = 0; i < step.timeline.spans[rank].size(); ++i) {
    const int first = column(step.timeline.spans[rank][i].begin), end = column(step.timeline.spans[rank][i].end);
    if (first >= end) continue;
    line.append(static_cast<std::size_t>(first - at), '.');
    line += cell(step, step.schedule.operations[rank][i], static_cast<std::size_t>(end - first), colour);
    at = end;
  }
  return line.append(static_cast<std::size_t>(columns - at), '.');
}
}  // namespace

std::string label_of(const PlannedStep& step, const pipeline::Operation& operation) {
  const auto& shape = step.schedule.shape;
  const char letter = static_cast<char>('a' + operation.stage / shape.ranks);
  return fmt::format("{}{}", operation.microbatch, shape.interleave > 1 ? std::string(1, letter) : "");
}

std::string step_chart(const PlannedStep& step, int width, bool colour) {
  const auto& shape = step.schedule.shape;
  const auto activations = pipeline::peak_activations(step.schedule);
  constexpr int kBeside = 5 + 1 + 2 + 6 + 2 + 11;  // of the other columns
  const int columns = columns_of(step, std::max(kLeastColumns, width - kBeside));
  auto chart = fmt::format("RANK  {:<{}}    IDLE  ACTIVATIONS\n", "", columns);
  for (std::size_t rank = 0; rank < activations.size(); ++rank)
    chart += fmt::format("{:>4}  {}  {:>5.1f}%  {:>11}\n", rank, rank_row(step, rank, columns, colour),
                         100 * step.timeline.idle[rank] / step.timeline.seconds, activations[rank]);
  const bool splits = step.schedule.algorithm == pipeline::Algorithm::zero_bubble;
  return chart + fmt::format("F forward, B backward{}, . idle\n0: first microbatch{}\n",
                             splits ? " of the input, W of the weights" : "",
                             shape.interleave > 1 ? ", a: first stage of the rank" : "");
}

}  // namespace distdl::app
