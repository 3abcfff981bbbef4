// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>

#include <distdl/checkpoint/commit/tags.hpp>
#include <distdl/checkpoint/format/layout.hpp>

namespace distdl::checkpoint {
namespace {
constexpr std::uint64_t kLongestTag = 100;

bool is_committed(const Path& root, Step step) {
  return is_there(root / step_folder_name(step) / kManifestName);
}

void remove_file(FileSystem& files, const Path& file) {
  if (files.unlink(file.c_str()) != 0 && errno != ENOENT) throw FileError("remove", file, errno);
  sync_folder(files, file.parent_path());
}
}  // namespace

bool is_tag_name(std::string_view name) {
  auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  auto is_good = [&](char c) { return is_letter(c) || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-'; };
  return !name.empty() && name.size() <= 64 && is_letter(name.front()) &&
         std::all_of(name.begin(), name.end(), is_good);
}

std::optional<Step> tagged_step(std::string_view name, std::string_view text) {
  if (!is_tag_name(name) || !text.ends_with('\n')) return std::nullopt;
  return step_of_folder(text.substr(0, text.size() - 1));
}

std::map<std::string, Step> read_tags(FileSystem& files, const Path& root) {
  std::map<std::string, Step> tags;
  if (!is_there(root / kTagsName)) return tags;
  for (const std::string& name : names_in(root / kTagsName)) {
    const Path file = root / kTagsName / name;
    if (name.starts_with('.')) continue;  // being written, or left by a crash
    auto text = read_text(files, file, kLongestTag);
    if (!text) continue;  // just removed
    const auto step = tagged_step(name, *text);
    if (!step)
      throw StorageError(
          fmt::format("\"{}\" is not a tag: the name of a step's folder was expected in it; remove it, because "
                      "nothing is deleted here while it exists",
                      file.string()),
          ExitCode::corrupt);
    tags[name] = *step;
  }
  return tags;
}

std::vector<std::string> names_of(const std::map<std::string, Step>& tags, Step step) {
  std::vector<std::string> names;
  for (const auto& [name, tagged] : tags)
    if (tagged == step) names.push_back(name);
  return names;
}

void add_tag(FileSystem& files, const Path& root, Step step, const std::string& name, bool move) {
  require<UsageError>(
      is_tag_name(name),
      "\"{}\" cannot be a tag: expected at most 64 letters, digits, '.', '_' and '-', with a letter first", name);
  auto missing = [&] {
    return StorageError(fmt::format("there is no checkpoint of step {} in \"{}\"; see \"distdl checkpoint why {} {}\"",
                                    step, root.string(), step, root.string()),
                        ExitCode::incomplete);
  };
  if (!is_committed(root, step)) throw missing();
  auto tags = read_tags(files, root);
  auto found = tags.find(name);
  if (found != tags.end() && found->second == step) return;
  require<UsageError>(found == tags.end() || move, "\"{}\" is already a tag of step {}; --move moves it", name,
                      found == tags.end() ? step : found->second);
  Path file = root / kTagsName / name;
  make_folders(files, file.parent_path());
  replace_text(files, file, step_folder_name(step) + "\n");
  // A collector reads the tags once more after it has moved a folder away, and brings it back if it now has one. So
  // either it sees this tag, or we see here that it was quicker.
  if (is_committed(root, step)) return;
  remove_file(files, file);
  throw missing();
}

void remove_tag(FileSystem& files, const Path& root, Step step, const std::string& name) {
  auto tags = read_tags(files, root);
  auto found = tags.find(name);
  require<UsageError>(found != tags.end() && found->second == step, "step {} no tag \"{}\"; {} has it", step, name,
                      found == tags.end() ? std::string("no other step") : fmt::format("step {} has", found->second));
  remove_file(files, root / kTagsName / name);
}

}  // namespace distdl::checkpoint
