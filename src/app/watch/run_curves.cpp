// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include <distdl/app/watch/run_curves.hpp>
#include <distdl/records/kinds.hpp>

namespace distdl::app {
namespace {
/// Inserts points between the first and the last ones of a curve.
void insert_between(Curve& curve, const std::vector<CurvePoint>& points) {
  const Curve known = std::exchange(curve, {});
  auto point = known.points().begin();
  for (; point != known.points().end() && point->step < points.front().step; ++point)
    curve.add(point->step, point->value);
  for (const auto& each : points) curve.add(each.step, each.value);
  for (; point != known.points().end(); ++point)
    if (point->step > curve.points().back().step) curve.add(point->step, point->value);
}
}  // namespace

void RunCurves::add(const records::Record& record) {
  const auto step = step_of(record);
  if (!step) return;
  for_each_number(record,
                  [&](const records::Field& field, double value) { curves_[field.metric].add(step->value, value); });
}

void RunCurves::insert(const std::vector<records::Row>& rows) {
  std::unordered_map<std::string_view, std::vector<CurvePoint>> points;
  for (const auto& row : rows)
    if (const auto step = step_of(row.record))
      for_each_number(row.record, [&](const records::Field& field, double value) {
        points[field.metric].push_back({step->value, value});
      });
  for (const auto& [name, each] : points) insert_between(curves_[name], each);
}

const Curve& RunCurves::operator[](std::string_view name) const {
  static const Curve kNone;
  const auto found = curves_.find(name);
  return found == curves_.end() ? kNone : found->second;
}

}  // namespace distdl::app
