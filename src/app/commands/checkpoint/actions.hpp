// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include <distdl/app/cli/arguments.hpp>
#include <distdl/base/exit_codes.hpp>
#include <distdl/checkpoint/summary.hpp>

// The parts of "distdl checkpoint". They need neither Slurm nor ranks.
namespace distdl::app {

void add_checkpoint_listing(Command parent);   ///< ls, show, digest
void add_checkpoint_checks(Command parent);    ///< verify, why
void add_checkpoint_diff(Command parent);      ///< diff
void add_checkpoint_keeping(Command parent);   ///< gc, tag
void add_checkpoint_exchange(Command parent);  ///< export, import
void add_import_pretrained(Command import);    ///< import pretrained

/// The help of an argument for root_of() or checkpoint_at().
inline constexpr const char* kRootHelp = "Folder of checkpoints, or of a run";
inline constexpr const char* kCheckpointHelp =
    "A checkpoint: its folder, DIR@STEP or DIR@TAG; for the folder of checkpoints or of a run: the newest one";

/// The folder of checkpoints: the folder itself, or the one in a run folder. Throws StorageError (incomplete) if there
/// is no such folder, and UsageError if it is one checkpoint or a file.
std::filesystem::path root_of(const std::string& folder);
/// The folder of the checkpoint named by `name`. The checkpoint may be damaged. Throws StorageError (incomplete).
std::filesystem::path checkpoint_folder(const std::string& name);
/// The folders of the checkpoints named by `name`: one, or all in a root. Throws StorageError (incomplete).
std::vector<std::filesystem::path> checkpoint_folders(const std::string& name);
/// True if an existing folder has disappeared, because an active run has deleted old checkpoints.
bool is_gone(const std::filesystem::path& folder);
/// Opens the checkpoint named by `name`.
checkpoint::Summary checkpoint_at(const std::string& name);

/// An argument or option with a whole number of at least `least`.
Option add_number(Command command, const char* name, std::optional<std::int64_t>& value, std::int64_t least,
                  const char* help);
/// An argument or option with a step.
Option add_step(Command command, const char* name, std::optional<std::int64_t>& step, const char* help);

/// The result for people: "ok", "damaged", "incomplete", "incompatible" or "unreadable".
const char* verdict_on(ExitCode code);
/// The text in quotes if it is short and plain, else its length.
std::string shortened(const std::string& value);
void print(const nlohmann::json& document);
std::string local_time(std::int64_t seconds);
std::string mebibytes(std::uint64_t bytes);

}  // namespace distdl::app
