// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include <distdl/base/clock.hpp>
#include <distdl/base/file_descriptor.hpp>
#include <distdl/base/ids.hpp>

namespace distdl::agent {

/// How often a rank gives a sign of life.
inline constexpr Milliseconds kBeatPeriod{250};

/// A rank's side: a thread that tells the agent every kBeatPeriod that the process runs, and the step that the rank has
/// done. A frozen process gives no sign; a rank that waits for others does.
class Beats {
 public:
  /// Nothing if no agent has started this process. Throws ConfigError if DISTDL_BEATS is no pipe.
  static std::unique_ptr<Beats> from_environment();
  ~Beats();
  Beats(const Beats&) = delete;
  Beats& operator=(const Beats&) = delete;

  /// Only rank 0 needs to say so. The agent learns of each step at once, so that it knows after which one a rank
  /// crashed. The first call tells the step at which the rank begins; before it, the rank has not begun.
  void step_done(Step step);

 private:
  explicit Beats(int descriptor);
  void send() const;

  FileDescriptor pipe_, end_;
  std::atomic<std::int64_t> step_{-1};
  std::jthread thread_;
};

/// The agent's side for one rank.
class BeatPipe {
 public:
  /// Throws SchedulerError if the system refuses a pipe.
  BeatPipe();
  /// For the environment of the rank, which needs the writer's descriptor; close_writer() after its start.
  std::map<std::string, std::string> variables() const;
  int writer() const { return writer_.get(); }
  void close_writer() { writer_.reset(); }
  int descriptor() const { return reader_.get(); }
  /// The step that the rank has done, as of its newest beat, -1 if it has not begun; nothing if no beat came since
  /// the last call.
  std::optional<Step> poll();

 private:
  FileDescriptor reader_, writer_;
};

}  // namespace distdl::agent
