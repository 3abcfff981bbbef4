// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <distdl/app/worker/signals.hpp>
#include <distdl/base/exit_codes.hpp>
#include <distdl/base/log.hpp>

namespace distdl::app {

WorkerSignals::WorkerSignals()
    : watch(stop, [](const std::string& reason) {
        log_nothing_to_save(reason);
        ::_exit(static_cast<int>(ExitCode::requeue));
      }) {}

void log_nothing_to_save(const std::string& reason) {
  log(Severity::info, "{} while this rank was starting: there was nothing to save", reason);
}

}  // namespace distdl::app
