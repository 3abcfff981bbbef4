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
  used,           ///< whole, and what a restart takes
  older,          ///< whole, but a newer one is whole too
  damaged,        ///< there, and cannot be restored
  incomplete,     ///< there, and some of its files are not
  incompatible,   ///< there, in a format that this program does not know
  being_written,  ///< there is a stage: a run is saving it now, or died while it was
  quarantined,
  collected,
  skipped,   ///< the save before was still under way; explain() does not know, the run's journal does
  snapshot,  ///< kept nearer than the file system only; likewise
  failed,
  abandoned,
  removed,  ///< it was saved, and somebody removed it
  never     ///< there is no record of it
};
/// "being written", "never saved"
std::string_view name_of(Standing standing);

struct Explanation {
  Standing standing = Standing::never;
  std::string reason{};           ///< a sentence
  std::optional<Step> instead{};  ///< the step of this root that a restart takes, unless a snapshot is newer
  std::optional<Step> barrier{};  ///< the step at which a restart ends with an error, for it does not know its format
  std::vector<Step> present{};    ///< committed steps, whatever state they are in
  /// ok if the step is whole; else what worst_of() says, and incomplete if it is not there.
  ExitCode code = ExitCode::incomplete;
};
/// The most severe finding: damage, then a missing file, then an unknown format. `findings` must not be empty.
const Finding& worst_of(const std::vector<Finding>& findings);
/// Inspects a root and its history. Reads all bytes of the step, and of the newest steps until one is whole. Throws
/// StorageError for lack of permission.
Explanation explain(const std::filesystem::path& root, Step step);

}  // namespace distdl::checkpoint
