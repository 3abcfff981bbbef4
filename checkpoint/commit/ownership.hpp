// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include <distdl/checkpoint/owner.hpp>
#include <distdl/files/file_operations.hpp>

namespace distdl::checkpoint {

std::string to_text(const Owner& owner);
/// Throws StorageError if to_text() did not make the text.
Owner owner_from(const std::string& text);

/// The owner of a root. Empty if there is no OWNER or it cannot be read.
std::optional<Owner> owner_of(FileSystem& files, const Path& root);
/// The run name in snapshots. It is equal for all runs that own a root one after the other. It differs for any other
/// run, and after the folder was removed or copied. `root` is an absolute path without a slash at its end.
std::string run_name(const std::string& lineage, const Path& root);
/// Makes `owner` the only run that may write to the root. Afterwards check_owner() fails for every other run.
void write_owner(FileSystem& files, const Path& root, const Owner& owner);
/// Throws StorageError with code superseded if `before`, the present owner, is a newer generation of the launch of
/// `mine`, which must then not take the folder from it.
void require_no_newer_generation(const Owner& before, const Owner& mine, const Path& root);
/// Throws StorageError with code superseded if OWNER does not name this run. Another run has then taken the folder, and
/// this one must stop. The code is storage if OWNER cannot be read.
void check_owner(FileSystem& files, const Path& root, const Owner& owner);

}  // namespace distdl::checkpoint
