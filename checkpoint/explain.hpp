// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <distdl/checkpoint/store.hpp>

// Why a step is not there, or is not what a restart takes.
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
  removed,  ///< it was saved, and somebody took it away
  never     ///< nothing tells of it
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
/// What counts most: damage more than an absence, and both more than a format that this program does not know. Of one
/// finding at least.
const Finding& worst_of(const std::vector<Finding>& findings);
/// Looks at what lies in a root and at its history. Reads in full the step, and the newest ones until one is whole.
/// Throws StorageError if something cannot be judged: no permission.
Explanation explain(const std::filesystem::path& root, Step step);

}  // namespace distdl::checkpoint
