// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace distdl::observe {

struct Options {
  std::string level = "info";  ///< lowest severity in the log: debug, info, warning or error
  std::string trace = "off";   ///< steps of which all ranks record what they do: "A:B", or off
  /// MiB that metrics.jsonl and each file of health/ may have; then every second one of their older rows is dropped,
  /// again and again. From this size on journal.jsonl has fewer of its frequent rows. 0: no limit. Readers read the
  /// last 64 MiB of a file.
  std::int64_t records_mib = 64;
  std::string openmetrics = {};         ///< file for node_exporter, written by rank 0 every few seconds; empty: none
  std::string openmetrics_listen = {};  ///< where rank 0 answers Prometheus, see endpoint_address(); empty: nowhere
  bool tensorboard = false;             ///< rank 0 writes event files
  std::int64_t tensorboard_histograms = 0;  ///< every so many checkpoints, histograms of the parameters; 0: none
  std::int64_t tensorboard_samples = 0;     ///< number of images or passages of the training set to show
};

/// Options::records_mib in bytes.
inline std::uint64_t most_bytes(const Options& options) {
  return static_cast<std::uint64_t>(options.records_mib) << 20;
}

/// Throws ConfigError for invalid values.
void check(const Options& options);

template <class Visitor>
void describe(Options& options, Visitor&& visit) {
  visit("log.level", options.level, "lowest severity that is logged: \"debug\", \"info\", \"warning\" or \"error\"");
  visit("log.trace", options.trace,
        "steps \"A:B\" of which all ranks record what they do, for \"distdl trace\"; \"off\": none");
  visit("log.records_mib", options.records_mib,
        "MiB that metrics.jsonl and the file of each node in health/ may have, after which their older rows become "
        "sparser, and from which journal.jsonl has fewer rows; 0: no limit");
  visit(
      "log.openmetrics", options.openmetrics,
      "file in the OpenMetrics format for the textfile collector of node_exporter (\"/path/distdl.prom\"), which rank "
      "0 replaces every few seconds; empty: none");
  visit("log.openmetrics_listen", options.openmetrics_listen,
        "port at which rank 0 answers GET /metrics of Prometheus, for processes of its node (\"9464\"), or an address "
        "of the node and a port (\"0.0.0.0:9464\"); empty: none");
  visit("log.tensorboard", options.tensorboard,
        "true: rank 0 writes event files for TensorBoard into the folder tensorboard of the run");
  visit("log.tensorboard_histograms", options.tensorboard_histograms,
        "of one checkpoint in so many TensorBoard also gets a histogram of each parameter; 0: of none");
  visit("log.tensorboard_samples", options.tensorboard_samples,
        "so many images of the training set, or passages of its text, that TensorBoard also gets");
}

}  // namespace distdl::observe
