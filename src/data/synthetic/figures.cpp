// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>

#include <distdl/data/synthetic/figures.hpp>

namespace distdl::data {
namespace {

float length(Point p) {
  return std::sqrt(p.x * p.x + p.y * p.y);
}
float dot(Point a, Point b) {
  return a.x * b.x + a.y * b.y;
}
float box(Point p, float half_width, float half_height) {
  return std::max(std::abs(p.x) - half_width, std::abs(p.y) - half_height);
}

float disc(Point p, float) {
  return length(p) - 0.8f;
}
float square(Point p, float) {
  return box(p, 0.7f, 0.7f);
}

float triangle(Point p, float) {
  constexpr Point kSide{0.8660254f, 0.5f};  // normal of the right side; the left one is its mirror image
  return std::max(dot({std::abs(p.x), p.y}, kSide), -p.y) - 0.45f;
}

float cross(Point p, float thickness) {
  return std::min(box(p, 0.9f, thickness), box(p, thickness, 0.9f));
}
float ring(Point p, float thickness) {
  return std::abs(length(p) - 0.7f) - 0.7f * thickness;
}

float star(Point p, float) {
  // Folded along its mirror lines, at 36 and 72 degrees, onto one half of one spike.
  constexpr Point kFold1{0.809016994f, -0.587785252f}, kFold2{-kFold1.x, kFold1.y};
  p.x = std::abs(p.x);
  for (Point fold : {kFold1, kFold2}) {
    float over = 2 * std::max(dot(fold, p), 0.0f);
    p = {p.x - over * fold.x, p.y - over * fold.y};
  }
  p = {std::abs(p.x), p.y - 1.0f};
  constexpr float kDepth = 0.45f;
  constexpr Point kEdge{-kFold1.y * kDepth, kFold1.x * kDepth - 1.0f};
  float along = std::clamp(dot(p, kEdge) / dot(kEdge, kEdge), 0.0f, 1.0f);
  float away = length({p.x - kEdge.x * along, p.y - kEdge.y * along});
  return p.y * kEdge.x - p.x * kEdge.y < 0 ? -away : away;
}

float bars(Point p, float thickness) {
  float x = std::abs(p.x);
  return std::max(std::min(x, std::abs(x - 0.7f)) - 0.7f * thickness, std::abs(p.y) - 0.8f);
}

float frame(Point p, float thickness) {
  return std::abs(std::max(std::abs(p.x), std::abs(p.y)) - 0.65f) - 0.6f * thickness;
}
float half_disc(Point p, float) {
  return std::max(length({p.x, p.y + 0.4f}) - 0.9f, -p.y - 0.4f);
}
float dots(Point p, float thickness) {
  return length({std::abs(p.x) - 0.6f, p.y}) - 0.2f - 0.6f * thickness;
}

constexpr std::array<Figure, 10> kFigures{{{"disc", disc},
                                           {"square", square},
                                           {"triangle", triangle},
                                           {"cross", cross},
                                           {"ring", ring},
                                           {"star", star},
                                           {"bars", bars},
                                           {"frame", frame},
                                           {"half disc", half_disc},
                                           {"dots", dots}}};
}  // namespace

std::span<const Figure> figures() {
  return kFigures;
}

}  // namespace distdl::data
