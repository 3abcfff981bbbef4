// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <csignal>

#include <distdl/base/exit_codes.hpp>
#include <distdl/program/stop_agreement.hpp>

namespace distdl::program {
namespace {
constexpr int kSignal = 128;
constexpr int kRequeue = static_cast<int>(ExitCode::requeue);

/// SIGKILL is the end of one that did not stop in time.
bool is_stopped_by_signal(int code) {
  return is_stop_signal(code) || code == kSignal + SIGKILL;
}

bool has_failed(const RankReport& report) {
  return report.has_ended != 0 && report.code != 0 && report.code != kRequeue && !is_stop_signal(report.code);
}
}  // namespace

bool is_stop_signal(int code) {
  return std::ranges::count(std::array{SIGTERM, SIGINT, SIGUSR1, SIGUSR2, SIGHUP}, code - kSignal) > 0;
}

Conclusion conclude(std::span<const RankReport> reports) {
  Conclusion found{.all_ended = true};
  std::int64_t last = 0;  // of the programs that still run
  bool all_are_known = true;
  for (const RankReport& report : reports) {
    found.stops = found.stops || report.wants_stop != 0;
    found.any_asks = found.any_asks || report.asks != 0;
    found.all_ended = found.all_ended && report.has_ended != 0;
    if (report.has_ended != 0) continue;
    all_are_known = all_are_known && report.call >= 0;
    last = std::max(last, report.call);
  }
  if (found.stops && all_are_known && last > 0) found.stop_at = last + 1;
  if (found.stops) return found;
  for (std::size_t rank = 0; rank < reports.size(); ++rank)
    if (has_failed(reports[rank]) &&
        (!found.failed || reports[rank].ended_at < reports[static_cast<std::size_t>(*found.failed)].ended_at))
      found.failed = static_cast<int>(rank);
  return found;
}

bool ends_part(std::span<const RankReport> reports) {
  return std::ranges::count(reports, kPartIsDone, &RankReport::wants_stop) > 0;
}

int code_of_run(std::span<const RankReport> reports, bool stops, bool is_complete) {
  const auto& first = *std::ranges::min_element(reports, {}, &RankReport::ended_at);
  int worst = 0;
  bool all_well = true;
  for (const RankReport& one : reports) {
    all_well = all_well && one.code == 0;
    int code = one.code == 0 || one.code == kRequeue ? one.code : code_of_failure(one.code);
    // In a stop one program ends by the signal, and another one by an exception because of that.
    const bool is_consequence = code == static_cast<int>(ExitCode::program) && &one != &first;
    if (stops && (is_stopped_by_signal(one.code) || is_consequence)) code = kRequeue;
    if (is_worse(code, worst)) worst = code;
  }
  const int code = all_well && stops && !is_complete ? kRequeue : worst;
  return code == kRequeue && ends_part(reports) ? 0 : code;
}

int code_of_failure(int code) {
  constexpr int kNotFound = 126;  // the shell's codes for a program that cannot be run, and for one that is not there
  if (code >= kNotFound) return code;
  for (const ExitCode known : {ExitCode::corrupt, ExitCode::incomplete, ExitCode::incompatible, ExitCode::usage,
                               ExitCode::peer_lost, ExitCode::storage, ExitCode::stopped, ExitCode::config})
    if (code == static_cast<int>(known)) return code;
  return static_cast<int>(ExitCode::program);
}

}  // namespace distdl::program
