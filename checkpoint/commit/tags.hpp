// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <distdl/base/ids.hpp>
#include <distdl/files/file_operations.hpp>

// Names that people give to checkpoints: <root>/tags/<name> contains the name of a step's folder. A checkpoint with a
// tag is never deleted.
namespace distdl::checkpoint {

/// A name consists of letters, digits, '.', '_' and '-'. It has at most 64 characters and begins with a letter.
bool is_tag_name(std::string_view name);

/// The step to which a file with this name and text gives a tag. Empty if it is not a valid tag.
std::optional<Step> tagged_step(std::string_view name, std::string_view text);

/// Throws StorageError if the tags cannot be read, with code corrupt if a file is not a valid tag. No checkpoint may be
/// deleted then.
std::map<std::string, Step> read_tags(FileSystem& files, const Path& root);
/// The names that `tags` gives to a step, in order.
std::vector<std::string> names_of(const std::map<std::string, Step>& tags, Step step);

/// Gives a name to a checkpoint. On return the checkpoint is kept until the tag is removed, even if another process is
/// deleting checkpoints. A name of another step is moved only if `move` is true. Throws UsageError if the name is
/// invalid or taken, and StorageError (incomplete) if there is no such checkpoint.
void add_tag(FileSystem& files, const Path& root, Step step, const std::string& name, bool move);
/// Throws UsageError if the step does not have that name.
void remove_tag(FileSystem& files, const Path& root, Step step, const std::string& name);

}  // namespace distdl::checkpoint
