// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include <distdl/records/record.hpp>

namespace distdl::observe {

/// The newest values of a run in the OpenMetrics text format (https://github.com/prometheus/OpenMetrics, 1.0): one
/// gauge for each field of a row that has a metric (records/kinds.hpp), with the label `run`. Thread-safe.
class Gauges {
 public:
  explicit Gauges(std::string run) : run_(std::move(run)) {}
  void take(const records::Row& row);
  std::string text() const;

 private:
  std::string run_;
  struct Gauge {
    std::string_view meaning;
    double value = 0;
  };
  mutable std::mutex mutex_;
  std::map<std::string_view, Gauge> gauges_;  ///< by name
};

/// The characters of a label's value that have a meaning are escaped.
std::string escaped_label(std::string_view value);

}  // namespace distdl::observe
