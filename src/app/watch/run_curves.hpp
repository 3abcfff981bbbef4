// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <distdl/app/watch/curve.hpp>
#include <distdl/records/record.hpp>

namespace distdl::app {

/// Values of a run by step: a curve for each metric (records::Field::metric), and for some numbers that are none.
class RunCurves {
 public:
  /// Adds the metrics of a record, if it has a step.
  void add(const records::Record& record);
  /// `name`: a constant, which is not copied.
  void add(std::string_view name, std::int64_t step, double value) { curves_[name].add(step, value); }
  /// Adds the metrics of records from between the first points.
  void insert(const std::vector<records::Row>& rows);
  /// An empty curve if there is no value.
  const Curve& operator[](std::string_view name) const;

 private:
  std::unordered_map<std::string_view, Curve> curves_;
};

}  // namespace distdl::app
