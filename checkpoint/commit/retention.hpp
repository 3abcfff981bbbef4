// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <distdl/base/ids.hpp>
#include <distdl/checkpoint/io/file_operations.hpp>

// Which checkpoints stay, and how the others go.
namespace distdl::checkpoint {

/// Moves a folder out of the way, to quarantine/<label>.<random>, with a file REASON. Throws StorageError if it cannot.
void quarantine(FileSystem& files, const Path& root, const Path& folder, const std::string& label,
                const std::string& reason);
/// The same in steps: a name that is free there, for a move of the caller's, and the reason afterwards.
Path place_in_quarantine(FileSystem& files, const Path& root, const std::string& label);
void explain_quarantine(FileSystem& files, const Path& root, const Path& place, const std::string& label,
                        const std::string& reason);

/// Renames a folder to .trash-* first, so that nobody ever sees half of it, then deletes it. False if it is still
/// there. `stays`, asked when it has been moved away, may bring it back.
bool discard(FileSystem& files, const Path& root, const Path& folder, const std::function<bool()>& stays = {});

struct Rule {
  std::int64_t keep = 3;        ///< newest verified checkpoints that stay
  std::int64_t keep_every = 0;  ///< of each so many steps the first checkpoint stays; 0: of none
};

/// The rule of the run that took the folder last, so that a tool deletes nothing that the run would keep: from OWNER,
/// else the history; the default if neither tells. Throws StorageError.
Rule last_rule(FileSystem& files, const Path& root);

/// What becomes of a checkpoint, and why.
struct RetentionDecision {
  Step step;
  Path folder;
  bool stays = true;
  std::string why;  ///< "one of the newest 3 that are verified", "tagged best", "3 newer ones are verified"
};

/// Decides about all checkpoints of a root, newest first. Calls `is_good` only where the result matters. `just_saved`
/// stays. Throws StorageError if folder or tags cannot be read; nothing may be deleted then.
std::vector<RetentionDecision> decide_retention(FileSystem& files, const Path& root, const Rule& rule,
                                                std::optional<Step> just_saved,
                                                const std::function<bool(Step, const Path&)>& is_good);

/// Deletes a checkpoint that is to go, and notes it in the history; brings it back if it has got a tag meanwhile.
/// False if part of it is left. Throws StorageError.
bool collect(FileSystem& files, const Path& root, const RetentionDecision& decision);

/// Removes what dead runs left: stages, trash, half-written files over an hour old. Stages are renamed first, so that a
/// zombie of an earlier run can never commit one that is half deleted.
void clear_leftovers(FileSystem& files, const Path& root);

}  // namespace distdl::checkpoint
