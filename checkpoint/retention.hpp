// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
#include <string>

#include <distdl/checkpoint/file_operations.hpp>
#include <distdl/checkpoint/store.hpp>

namespace distdl::checkpoint {

/// Moves a folder out of the way, to quarantine/<label>.<random>, with a file REASON. Throws StorageError if it cannot.
void quarantine(FileSystem& files, const Path& root, const Path& folder, const std::string& label,
                const std::string& reason);

/// Renames a folder to .trash-* first, so that nobody ever sees half of it, then deletes it. False if it is still
/// there.
bool discard(FileSystem& files, const Path& root, const Path& folder);

/// Deletes checkpoints older than the newest `keep` good ones, never `just_saved`. `good` holds the steps that are
/// known to be verified; older ones are verified here, once. Failing is logged: the run goes on.
void collect_garbage(FileSystem& files, const Path& root, std::int64_t keep, Step just_saved,
                     std::set<Step>& good) noexcept;

/// Removes what dead runs left: stages, trash, half-written files over an hour old. Stages are renamed first, so that a
/// zombie of an earlier run can never commit one that is half deleted.
void clear_leftovers(FileSystem& files, const Path& root);

}  // namespace distdl::checkpoint
