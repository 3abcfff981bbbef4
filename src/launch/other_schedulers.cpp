// SPDX-License-Identifier: Apache-2.0
#include <charconv>
#include <ctime>
#include <limits>
#include <sstream>
#include <string_view>

#include <unistd.h>

#include <distdl/base/env.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/base/process_age.hpp>
#include <distdl/launch/other_schedulers.hpp>
#include <distdl/slurm/duration.hpp>

namespace distdl::launch {
namespace {
using namespace std::chrono_literals;
using Time = std::chrono::system_clock::time_point;
using Seconds = std::chrono::seconds;

constexpr Seconds kLongest{100LL * 365 * 86400};

std::string_view trimmed(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t\r\n");
  return begin == std::string_view::npos ? std::string_view{}
                                         : text.substr(begin, text.find_last_not_of(" \t\r\n") - begin + 1);
}

std::optional<Seconds> seconds_in(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_whole = error == std::errc{} && end == text.data() + text.size();
  return is_whole && number >= 0 && number <= kLongest.count() ? std::optional(Seconds(number)) : std::nullopt;
}

/// "01:30:00", or seconds alone.
std::optional<Seconds> walltime_in(const std::string& text) {
  return text.find(':') == std::string::npos ? seconds_in(text) : slurm::duration_in(text);
}

/// "Tue Nov 24 14:25:46 2026", local time.
std::optional<Time> date_in(const std::string& text) {
  std::tm parts{};
  parts.tm_isdst = -1;
  const char* end = ::strptime(text.c_str(), "%a %b %d %H:%M:%S %Y", &parts);
  if (!end || *end) return std::nullopt;
  const std::time_t time = std::mktime(&parts);
  return time > 0 ? std::optional(std::chrono::system_clock::from_time_t(time)) : std::nullopt;
}

/// The output of the command; nothing, and a warning in the log, if it fails. A job without a known end is better than
/// none.
std::optional<std::string> answer_of(const Surroundings& surroundings, const std::vector<std::string>& command) {
  auto result = surroundings.run(command);
  if (result.exit_code == 0) return std::move(result.output);
  log(Severity::warning, "when the job ends is not known: \"{}\" ended with code {}: {}", command.front(),
      result.exit_code, trimmed(result.errors));
  return std::nullopt;
}

std::optional<OtherEnd> end_under_pbs(const Surroundings& surroundings, const std::string& job) {
  const auto walltime = surroundings.variable("PBS_WALLTIME");
  const auto limit = walltime ? walltime_in(*walltime) : std::nullopt;
  if (limit && surroundings.session_began) return OtherEnd{*surroundings.session_began + *limit, "PBS_WALLTIME"};
  const auto text = answer_of(surroundings, {"qstat", "-f", job});
  const auto end = text ? end_in_qstat(*text, surroundings.now) : std::nullopt;
  return end ? std::optional(OtherEnd{*end, "qstat"}) : std::nullopt;
}

std::optional<OtherEnd> end_after(const Surroundings& surroundings, std::optional<Seconds> left,
                                  const std::string& source) {
  return left ? std::optional(OtherEnd{surroundings.now + *left, source}) : std::nullopt;
}
}  // namespace

Surroundings Surroundings::real() {
  const auto run = [](const std::vector<std::string>& command) -> CommandResult {
    try {
      return run_command(command, 10s);
    } catch (const Error& error) {
      return {127, "", error.what()};
    }
  };
  const auto now = std::chrono::system_clock::now();
  const auto age = age_of_process(::getsid(0));
  return {&env, run, now, age ? std::optional(now - *age) : std::nullopt};
}

std::optional<OtherEnd> end_under_other_scheduler(const Surroundings& surroundings) {
  if (const auto job = surroundings.variable("PBS_JOBID")) return end_under_pbs(surroundings, *job);
  if (const auto job = surroundings.variable("LSB_JOBID")) {
    const auto text = answer_of(surroundings, {"bjobs", "-noheader", "-o", "time_left", *job});
    return end_after(surroundings, text ? time_left_in_bjobs(*text) : std::nullopt, "bjobs");
  }
  if (surroundings.variable("FLUX_JOB_ID")) {
    const auto text = answer_of(surroundings, {"flux", "job", "timeleft"});
    return end_after(surroundings, text ? time_left_in_flux(*text) : std::nullopt, "flux job timeleft");
  }
  return std::nullopt;
}

std::optional<Time> end_in_qstat(const std::string& text, Time now) {
  std::optional<Seconds> limit, left;
  std::optional<Time> start;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const auto equals = line.find(" = ");
    if (equals == std::string::npos) continue;
    const auto key = trimmed(std::string_view(line).substr(0, equals));
    const std::string value(trimmed(std::string_view(line).substr(equals + 3)));
    if (key == "Resource_List.walltime") limit = walltime_in(value);
    if (key == "Walltime.Remaining") left = seconds_in(value);
    if (key == "stime" || key == "start_time") start = date_in(value);
  }
  if (limit && start) return *start + *limit;
  return left ? std::optional(now + *left) : std::nullopt;
}

std::optional<Seconds> time_left_in_bjobs(const std::string& text) {
  std::istringstream words(text);
  std::string time, kind;
  words >> time >> kind;
  if (kind != "L") return std::nullopt;
  const auto colon = time.find(':');
  if (colon == std::string::npos) return std::nullopt;
  const bool has_seconds = time.find(':', colon + 1) != std::string::npos;
  const auto left = slurm::duration_in(has_seconds ? time : time + ":00");
  // Whole minutes may have been rounded up.
  return left && !has_seconds ? std::max(Seconds(0), *left - 1min) : left;
}

std::optional<Seconds> time_left_in_flux(const std::string& text) {
  const auto seconds = seconds_in(trimmed(text));
  return seconds && seconds->count() < std::numeric_limits<std::uint32_t>::max() ? seconds : std::nullopt;
}

}  // namespace distdl::launch
