// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include <distdl/base/clock.hpp>
#include <distdl/slurm/job_limits.hpp>

namespace distdl::launch {

/// How and when the job that this process is part of ends: under Slurm the job of the allocation; else that of PBS, LSF
/// or Flux, of which only the end is known.
slurm::JobLimits limits_of_job(const std::optional<slurm::Allocation>& allocation);

/// The file of a run folder by which rank 0 learns of an end that was changed while it trains: the limit was raised or
/// lowered, or the job was suspended for some time. Text: the job's name, how often it
/// was requeued (its next start has another end), and seconds since 1970.
std::filesystem::path end_file(const std::filesystem::path& run_folder);
/// Replaces it. Throws StorageError.
void write_end(const std::filesystem::path& run_folder, const slurm::Allocation& job, slurm::Time end);
/// Nothing if there is none, it is of another job or start, or cannot be read.
std::optional<slurm::Time> read_end(const std::filesystem::path& run_folder, const slurm::Allocation& job);

/// Watches the end of the job while its ranks run, and writes the file above when it changes.
class EndWatch {
 public:
  /// `known`: what the ranks know. The allocation must outlive this object.
  EndWatch(const slurm::Allocation& allocation, std::filesystem::path run_folder, std::optional<slurm::Time> known,
           Milliseconds period = std::chrono::minutes(1));
  /// Looks once in a period, and at once if it was not called for long: this process was suspended too.
  void poll();

 private:
  void look(slurm::Freshness freshness);

  const slurm::Allocation& allocation_;
  std::filesystem::path run_folder_;
  std::optional<slurm::Time> known_;
  Milliseconds period_;
  Deadline next_;
  Clock::time_point called_ = Clock::now();
};

}  // namespace distdl::launch
