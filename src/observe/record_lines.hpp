// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <distdl/train/events.hpp>

// Readers of journal.jsonl and metrics.jsonl. The files are not trusted, and a run does not depend on them.
namespace distdl::observe {

/// The fields of a line that readers need. Fields that are missing, of another type or out of range keep these values.
struct Record {
  std::string event{}, reason{};
  double time = 0;  ///< seconds since 1970
  std::optional<std::int64_t> step{};
  std::int64_t resumed_from = 0, steps_repeated = 0;
  bool interrupted = false;
  std::optional<std::int64_t> start{};  ///< of the run, from 1; rows of version 1 have none
  std::optional<double> samples_per_s{}, loss{}, validation_loss{}, validation_accuracy{};
  std::optional<double> mfu{}, hfu{};
  // Rows of the journal only (journal.hpp).
  std::string job{}, host{}, cause{}, cause_code{}, chain{}, nodes{}, kind{}, node{}, id{}, backend{}, distdl{},
      processor{}, when{}, product{}, resumed_source{};
  std::optional<std::int64_t> code{}, total_steps{}, rank{}, rule{};
  std::int64_t audited = 0;  ///< of "corrupted": the last step that had passed an audit
  std::int64_t restart = 0, ranks = 0, node_count = 0;
  double seconds = 0, stall_seconds = 0;
  double memory_bytes = 0;            ///< of "progress": of rank 0
  double bytes = 0;                   ///< of "checkpoint"
  std::vector<std::string> levels{};  ///< of "checkpoint" and "snapshot"
  double submit_time = 0, end = 0;    ///< seconds since 1970
  bool is_final = false, has_progressed = false, was_asked = false, is_refused = false;
  bool has_mixed_backends = false;  ///< of "started"
  // Of "started"; 0: not known.
  double flops_per_sample = 0, hardware_flops_per_sample = 0, peak_flops = 0;
  std::optional<train::ResourcesUsed> resources{};  ///< of "resources"
  // Of "shares": one entry per rank; all three lists are as long, or empty. The same of "ranges": elements and element
  // seconds, per server.
  std::vector<std::int64_t> shares{};
  std::vector<double> microbatch_seconds{};
  std::vector<std::string> hosts{};
  std::optional<std::int64_t> microbatch_size{};
  bool has_moved = false, recomputes = false;
  std::string went_back{};
  std::vector<std::int64_t> measurements{};        ///< of "disturbed", one entry per rank as `hosts`
  std::vector<std::int64_t> servers{}, workers{};  ///< of "product": ranks, each one of `hosts`
  // Of "deadline"; `end` above is the job's.
  double last_safe = 0, margin_seconds = 0, needed_seconds = 0, grace_seconds = 0;
  std::string preemption{};
  train::MeasuredTimes times{};
};

inline constexpr std::size_t kLongestLine = 64 << 10;  ///< bytes; longer lines are ignored
inline constexpr std::size_t kMostRead = 64 << 20;     ///< bytes; only the end of a longer file is read

/// Accepts any bytes. Returns nothing unless they are a JSON object.
std::optional<Record> parse_record(std::string_view line);

/// Calls `visit` for each valid line of a text that is given in pieces.
class RecordLines {
 public:
  explicit RecordLines(std::function<void(const Record&)> visit) : visit_(std::move(visit)) {}
  /// Skips the rest of a line, with which the text begins.
  void skip_one() { too_long_ = true; }
  void take(std::string_view piece);
  /// Handles the last line, which may lack its newline.
  void finish();

 private:
  void add(std::string_view part);

  std::function<void(const Record&)> visit_;
  std::string line_;
  bool too_long_ = false;
};

/// Visits the lines of a file, or of the last `most` bytes of a longer one. Throws StorageError if it cannot be read,
/// after the lines before; incomplete if there is no such file.
void read_records(const std::filesystem::path& file, const std::function<void(const Record&)>& visit,
                  std::size_t most = kMostRead);
/// The same of a file that nothing depends on: what cannot be read is passed over.
void for_each_record(const std::filesystem::path& file, const std::function<void(const Record&)>& visit,
                     std::size_t most = kMostRead);

}  // namespace distdl::observe
