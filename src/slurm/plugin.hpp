// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace distdl::slurm {

/// The job's end from libslurm. libslurm is GPL, changes its ABI with each release, and exits the process where it
/// finds no slurm.conf; so it is in a separate plug-in (libdistdl_slurm.so) that is opened only inside a Slurm
/// job, by the supervisor, never by a rank. Nothing if the plug-in is not installed, fits another Slurm, or does not
/// know.
std::optional<std::chrono::system_clock::time_point> plugin_end_time(const std::string& job);

}  // namespace distdl::slurm
