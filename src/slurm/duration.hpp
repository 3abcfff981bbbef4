// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace distdl::slurm {

/// Of "1-02:03:04", "02:03:04", "03:04" (minutes and seconds), "5" (minutes), "1-02" (days and hours), as sbatch --time
/// takes them, and of "30 sec" and "5 min", as scontrol prints them. Nothing for anything else, as "UNLIMITED", nor for
/// more than 100 years.
std::optional<std::chrono::seconds> duration_in(const std::string& text);

}  // namespace distdl::slurm
