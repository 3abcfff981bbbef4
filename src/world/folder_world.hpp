// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include <distdl/world/world.hpp>

namespace distdl::world {

/// Rendezvous in a folder that all ranks can access, on a local disk or a parallel file system. The files lie in
/// <folder>/<launch_id>/; rank 0 removes that folder once all ranks have read it.
struct FolderMeeting {
  std::filesystem::path folder;  ///< made if it does not exist
  std::string launch_id;         ///< a new one for every launch, so that files of an earlier one are never read
  Rank rank;
  int size = 1;
};

/// The content of a rank's file: a first line with the size of the world, then the blob.
std::string rendezvous_text(int size, const std::string& blob);
/// The blob of `rank` in such a text. Throws SchedulerError if the text is none for a world of `size`
/// ranks.
std::string blob_from(const std::string& text, Rank rank, int size);

/// Throws ConfigError for a rank outside the world or a launch id that is not made of letters, digits, '.', '_', '-'.
/// Its all_gather_strings() throws SchedulerError, naming the ranks that did not come, and StorageError if the folder
/// refuses.
std::unique_ptr<World> make_folder_world(const FolderMeeting& meeting);

}  // namespace distdl::world
