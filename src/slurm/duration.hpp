// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace distdl::slurm {

/// Reads a duration in the formats of sbatch --time: "1-02:03:04", "02:03:04", "03:04" (minutes and seconds), "5"
/// (minutes), "1-02" (days and hours); and in those that scontrol prints: "30 sec", "5 min". Nothing for anything else,
/// as "UNLIMITED", nor for more than 100 years.
std::optional<std::chrono::seconds> duration_in(const std::string& text);

}  // namespace distdl::slurm
