// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include <distdl/world/world.hpp>

namespace distdl::world {

/// Rendezvous in a folder that all ranks can access, on a local disk or a parallel file system. The files are in
/// <folder>/<launch_id>/, which is private to this user (PrivateFolder): another user cannot become a rank, even if
/// they may write to <folder>. Rank 0 removes that folder when all ranks have read it.
struct FolderMeeting {
  std::filesystem::path folder;  ///< created if it does not exist; must not be a link
  std::string launch_id;         ///< must be new for every launch, so that files of an earlier launch are never read
  Rank rank;
  int size = 1;
};

/// The content of a rank's file: a first line with the world size, then the blob.
std::string rendezvous_text(int size, const std::string& blob);
/// The blob of `rank` in such a text. Throws SchedulerError if the text is not for a world of `size` ranks.
std::string blob_from(const std::string& text, Rank rank, int size);

/// Throws ConfigError for a rank outside the world, or if the launch id has other characters than letters, digits, '.',
/// '_' and '-'. The world's all_gather_strings() throws SchedulerError that names the missing ranks, and StorageError
/// if the folder cannot be used.
std::unique_ptr<World> make_folder_world(const FolderMeeting& meeting);

}  // namespace distdl::world
