// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <distdl/base/clock.hpp>
#include <distdl/observe/alerts/alert_condition.hpp>
#include <distdl/observe/event_follower.hpp>
#include <distdl/observe/journal.hpp>

namespace distdl::observe {

/// Follows the records of a run, and does what the rules of its job ask for: once for each cause, until the rule no
/// longer holds. What was raised is noted in the journal, so that a later start of the run does not raise it again. It
/// belongs to "distdl run": ranks never wait for it.
class AlertWatch {
 public:
  /// The folder must exist.
  AlertWatch(std::filesystem::path run_folder, const std::vector<AlertRule>& rules);
  /// Looks a last time if start() was called: the ranks may have ended for the reason that a rule is about. A command
  /// that runs is awaited, at most until its timeout.
  ~AlertWatch();
  AlertWatch(const AlertWatch&) = delete;
  AlertWatch& operator=(const AlertWatch&) = delete;

  /// Calls look() every 10 s, from a thread of its own; for a drill every DISTDL_ALERT_MS milliseconds. Throws
  /// ConfigError if that is no number.
  void start();
  /// Reads what is new, and acts.
  void look();

 private:
  struct Watched {
    AlertRule rule;
    AlertCondition condition;
    bool is_raised = false;
  };
  void read_news();
  AlertFacts facts();
  void follow_goodput();
  void raise(std::size_t number, const std::string& cause);
  void run_command_of(const AlertRule& rule, const std::string& cause, const std::string& step) const;
  Milliseconds limit_of_end() const;
  void write_file_of(const AlertRule& rule, const std::string& cause) const;

  const std::filesystem::path run_folder_;
  std::vector<Watched> watched_;
  EventFollower follower_;
  Journal journal_;
  std::optional<double> goodput_;
  Clock::time_point next_goodput_{};
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace distdl::observe
