// SPDX-License-Identifier: Apache-2.0
#include <sstream>
#include <utility>

#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/files/file_operations.hpp>
#include <distdl/launch/job_end.hpp>
#include <distdl/launch/other_schedulers.hpp>

namespace distdl::launch {
namespace {
using namespace std::chrono_literals;

constexpr std::size_t kLargestEnd = 256;  ///< bytes of the file
}  // namespace

slurm::JobLimits limits_of_job(const std::optional<slurm::Allocation>& allocation) {
  if (allocation) return slurm::job_limits(*allocation, slurm::scheduler());
  // "distdl run --local" within a job: its ranks do not inherit the variable.
  if (const auto end = slurm::end_of_job_by_variable()) {
    slurm::JobLimits limits;
    limits.end = end;
    return limits;
  }
  const auto other = end_under_other_scheduler();
  if (!other) return {};
  log(Severity::info, "this job ends in {:.0f} min ({})",
      std::chrono::duration<double>(other->end - std::chrono::system_clock::now()).count() / 60, other->source);
  slurm::JobLimits limits;
  limits.end = other->end;
  return limits;
}

std::filesystem::path end_file(const std::filesystem::path& run_folder) {
  return resolved(run_folder) / "end-of-job";
}

void write_end(const std::filesystem::path& run_folder, const slurm::Allocation& job, slurm::Time end) {
  replace_text(real_file_system(), end_file(run_folder),
               fmt::format("{} {} {}\n", job.called(), job.restart, std::chrono::system_clock::to_time_t(end)));
}

std::optional<slurm::Time> read_end(const std::filesystem::path& run_folder, const slurm::Allocation& job) try {
  const auto text = read_text(real_file_system(), end_file(run_folder), kLargestEnd);
  if (!text) return std::nullopt;
  std::istringstream words(*text);
  std::string name;
  std::int64_t restart = 0, seconds = 0;
  constexpr std::int64_t kLastSecond = 253402300799;  // of the year 9999
  const bool is_mine = words >> name >> restart >> seconds && name == job.called() && restart == job.restart;
  if (!is_mine || seconds <= 0 || seconds > kLastSecond) return std::nullopt;
  return std::chrono::system_clock::from_time_t(seconds);
} catch (const StorageError&) {  // what the rank knows counts
  return std::nullopt;
}

EndWatch::EndWatch(const slurm::Allocation& allocation, std::filesystem::path run_folder,
                   std::optional<slurm::Time> known, Milliseconds period)
    : allocation_(allocation),
      run_folder_(std::move(run_folder)),
      known_(known),
      period_(period),
      next_(Deadline::after(period)) {}

void EndWatch::poll() {
  constexpr std::chrono::seconds kSuspended{4};  // it is called each second
  const auto now = Clock::now();
  const bool was_suspended = now - std::exchange(called_, now) > kSuspended;
  if (!was_suspended && !next_.expired()) return;
  look(was_suspended ? slurm::Freshness::now : slurm::Freshness::cached);
  next_ = Deadline::after(period_);
  called_ = Clock::now();  // Slurm may have taken its time
}

void EndWatch::look(slurm::Freshness freshness) try {
  const auto record = slurm::scheduler().job(allocation_.called(), freshness);
  if (!record || !record->is_alive() || !record->ends || record->ends == known_) return;
  log(Severity::info, "Slurm has moved the end of job {} by {} s", allocation_.called(),
      known_ ? std::chrono::duration_cast<std::chrono::seconds>(*record->ends - *known_).count() : 0);
  write_end(run_folder_, allocation_, *record->ends);
  known_ = record->ends;
} catch (const Error& error) {  // the ranks go on with what they know
  log(Severity::debug, "{}", error.what());
}

}  // namespace distdl::launch
