// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <distdl/comm/cost_table.hpp>
#include <distdl/forecast/step_time.hpp>

namespace distdl::forecast {

/// Nodes of one kind are forecast from the same figures.
struct NodeKind {
  std::string processor;  ///< processor_name()
  int processors = 1;
  std::string backend;  ///< kernels::Backend::description()
  bool operator==(const NodeKind&) const = default;
};
/// "4 x AMD EPYC 7763, oneDNN 2.6.3"
std::string to_string(const NodeKind& kind);
/// This machine's kind. `backend`: kernels::Backend::description().
NodeKind kind_of_this_node(std::string backend);

/// Times of a microbatch of one model on one kind of node, where `ranks` ranks of the node compute at the same time.
struct MeasuredWork {
  std::string identity;  ///< identity_of_work()
  int ranks = 1;
  int processors = 1;  ///< processors that a rank may use
  RankWork work;
  double read = 0;           ///< seconds of reading a microbatch from the data set
  double flops = 0;          ///< forward_flops() of a microbatch
  double program_bytes = 0;  ///< memory of a process beyond the forecast parts
  bool operator==(const MeasuredWork&) const = default;
};

/// Rate of matrix products alone, where `ranks` ranks of a node compute at the same time.
struct MeasuredPeak {
  int ranks = 1;
  double flops = 0;  ///< per second, of a rank
  bool operator==(const MeasuredPeak&) const = default;
};

/// All that was measured on nodes of one kind ("distdl bench calibrate").
struct Calibration {
  static constexpr int kVersion = 1;

  NodeKind kind;
  std::uint64_t memory_bytes = 0;             ///< memory of a node
  std::optional<comm::CostTable> costs = {};  ///< costs of collectives, with at least two ranks
  double busy_per_byte = 4e-10;               ///< processor seconds of a sum between nodes, per byte of its result
  double copy_rate = 4e9, write_rate = 2e8;   ///< bytes per second: of a snapshot, and to the disk
  double nap_seconds = 1.5e-4;                ///< delay of a wait for ranks of the node beside a computation
  double touch_per_byte = 2.5e-10;            ///< seconds of memory that is given back and taken again, per byte
  std::vector<MeasuredPeak> peaks;
  std::vector<MeasuredWork> works;

  /// Returns the work with this identity, with as many ranks on a node, or else the nearest number of them. nullptr:
  /// none.
  const MeasuredWork* find(const std::string& identity, int ranks) const;
  /// Adds it in place of an older measurement of the same work with as many ranks.
  void add(MeasuredWork measured);
  /// Adds it in place of an older measurement with as many ranks.
  void add(const MeasuredPeak& measured);
  /// Returns the peak of a rank with as many ranks on a node, or else the nearest number of them; 0: none was measured.
  double peak_flops(int ranks) const;
  /// Returns multiplications and additions per second: those of works with as many ranks on a node, or else of all; 0:
  /// none.
  double flops_per_second(int ranks) const;
};

/// As a JSON document, and back. Throws ConfigError with the reason for an invalid text.
std::string to_json(const Calibration& calibration);
Calibration calibration_from(const std::string& text);

/// Returns the file of a kind of node, in the folder of comm::cost_file(). Nothing if there is no home folder.
std::optional<std::filesystem::path> calibration_file(const NodeKind& kind);
/// Reads a calibration. Nothing if the file does not exist. Throws ConfigError that names the file for one that cannot
/// be used.
std::optional<Calibration> load_calibration(const std::filesystem::path& file);
/// Returns Calibration::peak_flops() of this machine's kind of node; 0 also where there is no file. Throws as
/// load_calibration() does.
double known_peak(const std::string& backend, int ranks);
/// Writes the file of its kind of node, and returns its path. Throws StorageError.
std::filesystem::path save_calibration(const Calibration& calibration);

}  // namespace distdl::forecast
