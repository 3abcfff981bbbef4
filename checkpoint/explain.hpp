// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <distdl/checkpoint/inspect.hpp>

// Explains why a step has no checkpoint, or why a restart does not use it.
namespace distdl::checkpoint {

enum class Standing {
  used,           ///< intact, and used by a restart
  older,          ///< intact, but a newer one is also intact
  damaged,        ///< it exists, but cannot be restored
  incomplete,     ///< it exists, but some of its files are missing
  unreadable,     ///< it exists, but this user, or now, cannot read it
  incompatible,   ///< it exists in a format that this program does not know
  being_written,  ///< there is a stage: a run writes it now, or died while it wrote
  quarantined,
  collected,
  skipped,   ///< the previous save was not finished; only the run's journal knows this, not explain()
  snapshot,  ///< kept only in memory or on node disks; only the run's journal knows this
  failed,
  abandoned,
  removed,  ///< it was saved and later removed by hand
  never     ///< there is no record of it
};
/// The name for people, such as "being written" or "never saved".
std::string_view name_of(Standing standing);

struct Explanation {
  Standing standing = Standing::never;
  std::string reason{};           ///< a sentence
  std::optional<Step> instead{};  ///< the step of this root that a restart uses, unless a snapshot is newer
  std::optional<Step> barrier{};  ///< the step whose unknown format ends a restart with an error
  std::vector<Step> present{};    ///< committed steps, intact or not
  /// ok if the step is intact; else the code of worst_of(), or incomplete if the step does not exist.
  ExitCode code = ExitCode::incomplete;
};
/// The most severe finding: damage, then a missing file, then an unknown format. `findings` must not be empty.
const Finding& worst_of(const std::vector<Finding>& findings);
/// Inspects a root and its history. Reads all bytes of the step, and of the newest steps until one is intact. Throws
/// StorageError if permission is missing.
Explanation explain(const std::filesystem::path& root, Step step);

}  // namespace distdl::checkpoint
