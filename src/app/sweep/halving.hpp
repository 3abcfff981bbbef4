// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

// Decisions of a sweep by halving. A decision is on the disk before a run acts on it: later the runs that went on no
// longer show the values by which they were compared.
namespace distdl::app {

/// Runs that were compared after the same step.
struct HalvingRung {
  std::int64_t rung = 1;
  std::int64_t end_at = 0;  ///< step after which they were compared
  /// Values of the evaluations, by run; nothing: the run has failed.
  std::map<std::size_t, std::optional<double>> values = {};
  std::optional<std::vector<std::size_t>> going_on = std::nullopt;  ///< nothing: not decided, or to be decided again
};

std::string to_text(const HalvingRung& rung);
/// Throws StorageError (corrupt) that names the file `name` if to_text() did not make the text.
HalvingRung rung_from(const std::string& text, const std::string& name);

/// The rungs of the sweep in this folder, by the files rung-0001.json ... there. Throws StorageError.
std::vector<HalvingRung> read_rungs(const std::filesystem::path& folder);
/// Notes a rung durably. Throws StorageError.
void write_rung(const std::filesystem::path& folder, const HalvingRung& rung);

/// Before runs that have failed are tried again: the rungs in which they failed are decided again, once their values
/// are known. Throws StorageError.
void reopen_rungs(const std::filesystem::path& folder, const std::set<std::size_t>& retried);

}  // namespace distdl::app
