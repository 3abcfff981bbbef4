// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

namespace distdl::submit {

/// The script of the last submission, in the run folder.
inline constexpr const char* kScriptName = "job.sbatch";

/// The script of the last job that joined the run.
inline constexpr const char* kJoinScriptName = "join.sbatch";

/// The folder in which the job of a script runs: its --chdir; the current folder if it has none. Throws StorageError if
/// the script cannot be read.
std::filesystem::path folder_of_script(const std::filesystem::path& script);

/// Reads a batch script of at most some megabytes. Throws StorageError.
std::string read_script(const std::filesystem::path& script);

/// Puts it there, whatever was there before. Throws StorageError.
void write_script_file(const std::filesystem::path& script, const std::string& text);

}  // namespace distdl::submit
