// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include <distdl/checkpoint/io/file_operations.hpp>
#include <distdl/checkpoint/owner.hpp>

namespace distdl::checkpoint {

std::string to_text(const Owner& owner);
/// Throws StorageError if the text is none that to_text made.
Owner owner_from(const std::string& text);

/// The owner of a root; nothing if there is none or OWNER cannot be read.
std::optional<Owner> owner_of(FileSystem& files, const Path& root);
/// The run name in snapshots: equal for all runs that own a root one after the other. It differs for any other run, and
/// for a run whose folder was removed or copied. `root` is absolute and has no slash at its end.
std::string run_name(const std::string& lineage, const Path& root);
/// Makes `owner` the only run that may write to the root. From now on check_owner() fails for every other run.
void write_owner(FileSystem& files, const Path& root, const Owner& owner);
/// Throws StorageError (superseded) if OWNER does not name this run: then another run has taken the folder and this one
/// must stop; (storage) if it cannot be read.
void check_owner(FileSystem& files, const Path& root, const Owner& owner);

}  // namespace distdl::checkpoint
