// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

// The file job.toml of a run folder: all keys of the job that started last, as "distdl run" read them.
namespace distdl::observe {

/// Replaces the file if it has another text. That this is not possible is a warning: the run does not need it.
void keep_job(const std::filesystem::path& run_folder, const std::string& text);

/// Nothing if there is none, as in a run of distdl 0.1. Throws StorageError if it cannot be read.
std::optional<std::string> kept_job(const std::filesystem::path& run_folder);

/// "optim.learning_rate" -> "0.1", of a job as config::to_toml() writes it.
std::map<std::string, std::string> keys_of_job(const std::string& toml);

}  // namespace distdl::observe
