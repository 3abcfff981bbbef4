// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include <distdl/world/world.hpp>

namespace distdl::world {

/// Ranks that meet in a folder which all of them see, such as a local disk or a parallel file system. The files lie in
/// <folder>/<launch_id>/; rank 0 removes that folder once all ranks have read it.
struct FolderMeeting {
  std::filesystem::path folder;  ///< made if it does not exist
  std::string launch_id;         ///< a new one for every launch, so that files of an earlier one are never read
  Rank rank;
  int size = 1;
};

/// What a rank lays down there: a first line with the size of the world, and its blob behind.
std::string rendezvous_text(int size, const std::string& blob);
/// The blob that `rank` has laid down in such a text. Throws SchedulerError if the text is none for a world of `size`
/// ranks.
std::string blob_from(const std::string& text, Rank rank, int size);

/// Throws ConfigError for a rank outside the world or a launch id that is not made of letters, digits, '.', '_', '-'.
/// Its all_gather_strings() throws SchedulerError, naming the ranks that did not come, and StorageError if the folder
/// refuses.
std::unique_ptr<World> make_folder_world(const FolderMeeting& meeting);

}  // namespace distdl::world
