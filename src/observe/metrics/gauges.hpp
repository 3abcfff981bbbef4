// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include <nlohmann/json_fwd.hpp>

#include <distdl/observe/records.hpp>

namespace distdl::observe {

/// The newest values of a run in the OpenMetrics text format (https://github.com/prometheus/OpenMetrics, 1.0): one
/// gauge for each field of a row that has a `metric` in the table of records.hpp, with the label `run`. Thread-safe.
class Gauges {
 public:
  explicit Gauges(std::string run) : run_(std::move(run)) {}
  void take(const RecordKind& kind, const nlohmann::ordered_json& row);
  std::string text() const;

 private:
  void take(const Field& field, const nlohmann::ordered_json& row);

  std::string run_;
  struct Gauge {
    const Field* field;
    double value;
  };
  mutable std::mutex mutex_;
  std::map<std::string_view, Gauge> gauges_;  ///< by name
};

/// The characters of a label's value that have a meaning are escaped.
std::string escaped_label(std::string_view value);

}  // namespace distdl::observe
