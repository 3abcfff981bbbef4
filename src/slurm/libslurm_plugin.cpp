// SPDX-License-Identifier: Apache-2.0
// The one file compiled against libslurm; built as a shared object of its own (see plugin.hpp).
#include <cstdint>
#include <ctime>

#include <dlfcn.h>
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>

namespace {
/// Whether the libslurm found at run time is of the release that this was compiled for.
bool same_release() {
  constexpr long kMajorMinorMask = ~0xFFL;
  return (slurm_api_version() & kMajorMinorMask) == (SLURM_VERSION_NUMBER & kMajorMinorMask);
}
}  // namespace

/// Seconds since 1970, 0 if unknown or without limit, -1 on an error. Not thread-safe.
extern "C" __attribute__((visibility("default"))) long long distdl_slurm_end_time(unsigned job) {
  static const bool usable = [] {
    if (!same_release()) return false;
    slurm_init(nullptr);
    return true;
  }();
  if (!usable) return -1;
  // slurm_get_end_time reports a year ahead for jobs without a limit; the job record tells the two apart.
  job_info_msg_t* message = nullptr;
  if (slurm_load_job(&message, job, SHOW_ALL) != SLURM_SUCCESS || !message) return -1;
  long long end = 0;
  for (std::uint32_t i = 0; i < message->record_count; ++i) {  // of a job array there may be several
    const auto& record = message->job_array[i];
    if (record.job_id == job && record.time_limit != INFINITE) end = static_cast<long long>(record.end_time);
  }
  slurm_free_job_info_msg(message);
  return end;
}
