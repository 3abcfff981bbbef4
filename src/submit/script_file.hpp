// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

namespace distdl::submit {

/// The script of the last submission, in the run folder.
inline constexpr const char* kScriptName = "job.sbatch";

/// The script of the last job that joined the run.
inline constexpr const char* kJoinScriptName = "join.sbatch";

/// The folder in which the job of a script with this text runs: its --chdir; the current folder if it has none.
std::filesystem::path folder_of_script(const std::string& text);

/// Reads a script that distdl has written for this user. Throws StorageError if it is of another user, or others may
/// write to it: they would choose what this user's job does.
std::string read_own_script(const std::filesystem::path& script);

/// Reads a batch script of at most some megabytes. Throws StorageError.
std::string read_script(const std::filesystem::path& script);

}  // namespace distdl::submit
