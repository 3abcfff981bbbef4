// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

// The name of a run, which its jobs and restarts share, and the index of the places of a user's runs.
namespace distdl::observe {

/// The file RUN of a run folder. Made once, by whichever command comes first.
struct RunIdentity {
  std::string id;      ///< 12 random hexadecimal digits
  double created = 0;  ///< seconds since 1970
};

std::string to_text(const RunIdentity& identity);
/// Nothing if the text is none that to_text made.
std::optional<RunIdentity> identity_from(const std::string& text);

/// Nothing if the folder has none.
std::optional<RunIdentity> find_identity(const std::filesystem::path& run_folder);
/// The run's identity; makes the file if there is none, with this id, or a new one. Throws StorageError if that is not
/// possible.
RunIdentity identify_run(const std::filesystem::path& run_folder, const std::string& id = {});

/// The user's index of runs: a folder with one small file per run. XDG_STATE_HOME/distdl/runs, else
/// ~/.local/state/distdl/runs; nothing where neither variable is set.
std::optional<std::filesystem::path> run_index();
/// Stores in the index where the run lies. A failure is no error: the run does not need the index.
void remember_run(const RunIdentity& identity, const std::filesystem::path& run_folder);
/// Removes the run from the index.
void forget_run(const std::string& id);

struct KnownRun {
  std::string id;
  std::filesystem::path folder;
};
/// All runs of the index, sorted by id. Some of their folders may no longer exist.
std::vector<KnownRun> known_runs();

}  // namespace distdl::observe
