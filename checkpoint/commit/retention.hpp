// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <distdl/base/ids.hpp>
#include <distdl/files/file_operations.hpp>

// Decides which checkpoints are kept, and deletes the others.
namespace distdl::checkpoint {

/// Moves a folder to quarantine/<label>.<random> and adds a file REASON. Throws StorageError on failure.
void quarantine(FileSystem& files, const Path& root, const Path& folder, const std::string& label,
                const std::string& reason);
/// The two steps of quarantine(), for callers that move the folder themselves: a free name in the quarantine, and the
/// record of the reason.
Path place_in_quarantine(FileSystem& files, const Path& root, const std::string& label);
void explain_quarantine(FileSystem& files, const Path& root, const Path& place, const std::string& label,
                        const std::string& reason);

/// Renames a folder to .trash-* first, so that no process sees it partly deleted, then deletes it. Returns false if
/// part of it remains. `stays` is called after the rename; if it returns true, the folder is renamed back.
bool discard(FileSystem& files, const Path& root, const Path& folder, const std::function<bool()>& stays = {});

struct Rule {
  std::int64_t keep = 3;             ///< number of newest verified checkpoints that are kept
  std::int64_t keep_every = 0;       ///< the first checkpoint of every so many steps is kept; 0: none
  std::optional<Step> audited = {};  ///< the newest checkpoint up to this step is kept
};

/// The retention rule of the run that took the folder last, so that a tool deletes nothing that the run would keep. It
/// comes from OWNER, else from the history, else it is the default; `audited` comes from the newest checkpoint. Throws
/// StorageError.
Rule last_rule(FileSystem& files, const Path& root);

/// Whether a checkpoint is kept, and the reason.
struct RetentionDecision {
  Step step;
  Path folder;
  bool stays = true;
  std::string why;  ///< "one of the newest 3 that are verified", "tagged best", "3 newer ones are verified"
};

/// Decides about all checkpoints of a root, newest first. Calls `is_good` only where the result matters. `just_saved`
/// is kept. Throws StorageError if the folder or the tags cannot be read; nothing may be deleted then.
std::vector<RetentionDecision> decide_retention(FileSystem& files, const Path& root, const Rule& rule,
                                                std::optional<Step> just_saved,
                                                const std::function<bool(Step, const Path&)>& is_good);

/// Deletes a checkpoint and records that in the history. If it has been tagged meanwhile, it is kept. Returns false if
/// part of it remains. Throws StorageError.
bool collect(FileSystem& files, const Path& root, const RetentionDecision& decision);

/// Removes what dead runs left: stages, trash, and incomplete files older than an hour. Stages are renamed first, so
/// that a zombie of an earlier run cannot commit a partly deleted one.
void clear_leftovers(FileSystem& files, const Path& root);

}  // namespace distdl::checkpoint
