// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include <distdl/base/clock.hpp>
#include <distdl/observe/metrics/gauges.hpp>
#include <distdl/observe/metrics/metrics_endpoint.hpp>
#include <distdl/observe/options.hpp>

namespace distdl::observe {

/// The Gauges of a run for Prometheus: as a file for the textfile collector of node_exporter, and by HTTP. Readers of
/// the file see the old one or the new one, never a part: it is written beside its place, as `.NAME.` and 16 random
/// digits, and renamed.
class OpenMetrics {
 public:
  static constexpr std::chrono::seconds kPeriod{5};

  /// Throws ConfigError as check_metrics_file() does. Only warns if it cannot listen at Options::openmetrics_listen.
  OpenMetrics(const Options& options, std::string run);

  /// Takes the values of a row and writes the file if the last time is kPeriod ago. If it cannot be written, or is no
  /// regular file any more, this warns once and ends no run.
  void take(const records::Row& row);
  /// Writes the file at once, if there is one.
  void write();
  /// Port of the endpoint; 0: there is none.
  std::uint16_t port() const { return endpoint_ ? endpoint_->port() : std::uint16_t{0}; }

 private:
  std::filesystem::path file_;
  Gauges gauges_;
  Clock::time_point next_{};
  bool warned_ = false;
  std::optional<MetricsEndpoint> endpoint_;  ///< its thread reads the gauges
};

/// Throws ConfigError unless `file` is a regular file, or nothing in a folder that exists, and can be replaced: a
/// device, FIFO, link or folder must not be.
void check_metrics_file(const std::filesystem::path& file);

}  // namespace distdl::observe
