// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <distdl/base/clock.hpp>
#include <distdl/health/failure_predictor.hpp>
#include <distdl/observe/health/health_log.hpp>
#include <distdl/observe/journal.hpp>

namespace distdl::observe {

/// Looks, for all nodes of a run, whether one is likely to fail soon. Then it tells so in the journal and asks for
/// checkpoints more often. Thread-safe.
class FailureWatch {
 public:
  /// `between_saves`: from one request for a checkpoint to the next, while a node is at risk. `host`: only this node is
  /// looked at. Its agent does so, and tells what it saw before a spare takes the place of the node: rank 0 may look
  /// later.
  FailureWatch(std::filesystem::path run_folder, const health::FailurePredictor& predictor,
               Clock::duration between_saves = std::chrono::minutes(1), std::string host = {});
  ~FailureWatch();
  FailureWatch(const FailureWatch&) = delete;
  FailureWatch& operator=(const FailureWatch&) = delete;

  /// Calls look() every 30 s, from a thread of its own; for a drill every DISTDL_FAILURE_WATCH_MS milliseconds. Throws
  /// ConfigError if that is no number.
  void start();
  /// Reads what the nodes told last. A node is at risk if two readings in a row say so, and until one says otherwise.
  void look();
  /// True if a checkpoint is to be made now.
  bool wants_save();
  std::vector<std::string> nodes_at_risk() const;

 private:
  struct Node {
    HealthRow last;
    int alarms = 0;  ///< readings in a row
  };
  void take(const HealthRow& row, double slowdown);

  const std::filesystem::path run_folder_;
  const health::FailurePredictor predictor_;
  const Clock::duration between_saves_;
  const std::string host_;
  Journal journal_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, Node> nodes_;
  Clock::time_point next_save_{};
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace distdl::observe
