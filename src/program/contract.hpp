// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

namespace distdl::program {

/// The variable with the path of the socket at which the process that started a program answers it.
inline constexpr const char* kContractVariable = "DISTDL_CONTRACT";

/// A value that a program has measured, with its name.
using NamedValue = std::pair<std::string, double>;

/// A program's side of the run contract: what a program that "distdl run" has started tells it, and asks it. Lines of
/// JSON over a Unix socket: docs/programs.md. The socket is private to the rank. A process of which the program forks
/// may not use it. Thread-safe. What cannot be told, because distdl is gone, is dropped: the signal that ends the rank
/// is on its way.
class Contract {
 public:
  /// Null if "distdl run" has not started this process. Throws ConfigError if nobody answers at that socket.
  static std::unique_ptr<Contract> from_environment();
  ~Contract();
  Contract(const Contract&) = delete;
  Contract& operator=(const Contract&) = delete;

  /// To be called by all ranks at the same places of their work, once per step. The k-th call has the same answer on
  /// all ranks: true if the run is to save and stop. It is quick, but for the two calls after a request to stop: the
  /// second may wait for the other ranks' first, for at most a minute. From the first call on SIGTERM, SIGUSR1 and
  /// SIGUSR2 that others than the rank's process send do not end this process, unless it has handlers of its own.
  bool should_stop();
  /// The step that is done, how many there are (nothing: not known), and metrics of it, which rank 0 tells.
  void progress(std::int64_t step, std::optional<std::int64_t> steps = {}, std::span<const NamedValue> metrics = {});
  /// All of the program's state as of this step is saved, which took so long (nothing: not measured).
  void saved(std::int64_t step, std::optional<double> seconds = {});
  /// The program has done all its work. Exit code 0 after a request to stop then means that the run is finished.
  void finished();
  /// Seconds until the job ends, as far as that is known.
  std::optional<double> seconds_left();

 private:
  struct State;
  explicit Contract(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace distdl::program
