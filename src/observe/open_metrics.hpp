// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include <distdl/base/clock.hpp>
#include <distdl/observe/records.hpp>

namespace distdl::observe {

/// The newest values of a run as a file for the textfile collector of node_exporter, in the OpenMetrics text format
/// (https://github.com/prometheus/OpenMetrics, 1.0): one gauge for each field of a row that has a `metric` in the table
/// of records.hpp, with the label `run`. Readers see the old file or the new one, never a part: it is written beside
/// its place, as `.NAME.distdl`, and renamed.
class OpenMetrics {
 public:
  static constexpr std::chrono::seconds kPeriod{5};

  /// Throws ConfigError unless `file` is a regular file, or nothing in a folder that exists: a device, FIFO, link or
  /// folder would be replaced.
  OpenMetrics(std::filesystem::path file, std::string run);

  /// Takes the values of a row and writes the file if the last time is kPeriod ago. That it cannot be written, or is no
  /// regular file any more, is told once and ends no run.
  void take(const RecordKind& kind, const nlohmann::ordered_json& row);
  /// Writes at once.
  void write();

 private:
  void take(const Field& field, const nlohmann::ordered_json& row);
  std::string text() const;

  std::filesystem::path file_;
  std::string run_;
  struct Gauge {
    const Field* field;
    double value;
  };
  std::map<std::string_view, Gauge> gauges_;  ///< by name
  Clock::time_point next_{};
  bool warned_ = false;
};

/// The characters of a label's value that have a meaning are escaped.
std::string escaped_label(std::string_view value);

}  // namespace distdl::observe
