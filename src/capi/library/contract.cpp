// SPDX-License-Identifier: Apache-2.0
#include <limits>
#include <mutex>
#include <vector>

#include <unistd.h>

#include <distdl/capi/library/arguments.hpp>
#include <distdl/program/contract.hpp>

namespace distdl::capi {
namespace {

/// This process's side of the run contract, which the first call connects.
class Connection {
 public:
  static Connection& of_process() {
    static auto* const connection = new Connection;  // threads may use it until the process has ended
    return *connection;
  }
  /// Null if "distdl run" has not started this process. Throws ConfigError as Contract::from_environment() does.
  program::Contract* contract() {
    const std::lock_guard lock(mutex_);
    if (process_ == 0) {
      contract_ = program::Contract::from_environment();
      process_ = ::getpid();
    }
    if (process_ != ::getpid()) fail(DISTDL_STATE, "a child after fork() must not use the run contract of its parent");
    return contract_.get();
  }

 private:
  std::mutex mutex_;
  ::pid_t process_ = 0;  ///< 0: not connected yet
  std::unique_ptr<program::Contract> contract_;
};

/// Calls body(contract), unless there is none.
template <class Body>
int tell(const char* function, Body&& body) {
  return guarded<Blame::options>(function, [&] {
    if (program::Contract* const contract = Connection::of_process().contract()) body(*contract);
  });
}

}  // namespace
}  // namespace distdl::capi

using namespace distdl::capi;  // NOLINT(google-build-using-namespace)
using distdl::program::Contract;
using distdl::program::NamedValue;

int distdl_started(int* started) {
  return guarded<Blame::options>(__func__, [&] {
    written(started, "started") = 0;
    *started = Connection::of_process().contract() != nullptr;
  });
}

int distdl_should_stop(int* stop) {
  return guarded<Blame::options>(__func__, [&] {
    written(stop, "stop") = 0;
    if (Contract* const contract = Connection::of_process().contract()) *stop = contract->should_stop();
  });
}

int distdl_progress(int64_t step, int64_t steps) {
  return distdl_progress_with(step, steps, 0, nullptr, nullptr);
}

int distdl_progress_with(int64_t step, int64_t steps, size_t count, const char* const* names, const double* values) {
  return guarded<Blame::options>(__func__, [&] {
    need(step >= 0, "step is {}", step);
    need(steps >= 0, "steps is {}", steps);
    need(count == 0 || (names != nullptr && values != nullptr), "names or values are null");
    std::vector<NamedValue> metrics;
    for (std::size_t i = 0; i < count; ++i) metrics.emplace_back(text(names[i], "names"), values[i]);
    if (Contract* const contract = Connection::of_process().contract())
      contract->progress(step, steps > 0 ? std::optional(steps) : std::nullopt, metrics);
  });
}

int distdl_saved(int64_t step, double seconds) {
  return guarded<Blame::options>(__func__, [&] {
    need(step >= 0, "step is {}", step);
    need(seconds == seconds, "seconds is not a number");
    if (Contract* const contract = Connection::of_process().contract())
      contract->saved(step, seconds < 0 ? std::nullopt : std::optional(seconds));
  });
}

int distdl_finished(void) {
  return tell(__func__, [](Contract& contract) { contract.finished(); });
}

int distdl_seconds_left(double* seconds) {
  return guarded<Blame::options>(__func__, [&] {
    written(seconds, "seconds") = std::numeric_limits<double>::infinity();
    Contract* const contract = Connection::of_process().contract();
    if (contract) *seconds = contract->seconds_left().value_or(std::numeric_limits<double>::infinity());
  });
}
