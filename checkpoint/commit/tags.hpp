// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <distdl/base/ids.hpp>
#include <distdl/checkpoint/io/file_operations.hpp>

// Names that people give to checkpoints: <root>/tags/<name> holds the name of a step's folder. What has a tag is never
// collected.
namespace distdl::checkpoint {

/// Letters, digits, '.', '_' and '-', at most 64, the first a letter.
bool is_tag_name(std::string_view name);

/// The step that a file of this name tags, if this text is in it.
std::optional<Step> tagged_step(std::string_view name, std::string_view text);

/// Throws StorageError if they cannot be read, or corrupt if a file there is no tag: then nothing may be collected.
std::map<std::string, Step> read_tags(FileSystem& files, const Path& root);
/// The names that `tags` gives to a step, in order.
std::vector<std::string> names_of(const std::map<std::string, Step>& tags, Step step);

/// Gives a name to a checkpoint; when this returns, it stays until the tag is removed, whoever collects meanwhile.
/// A name that another step bears already moves only if `move`. Throws UsageError for a name that is none or is taken,
/// StorageError (incomplete) if there is no such checkpoint.
void add_tag(FileSystem& files, const Path& root, Step step, const std::string& name, bool move);
/// Throws UsageError if the step does not have that name.
void remove_tag(FileSystem& files, const Path& root, Step step, const std::string& name);

}  // namespace distdl::checkpoint
