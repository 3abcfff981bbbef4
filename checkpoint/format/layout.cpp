// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>

#include <distdl/base/errors.hpp>
#include <distdl/base/random.hpp>
#include <distdl/base/shortage.hpp>
#include <distdl/checkpoint/format/layout.hpp>
#include <distdl/files/file_operations.hpp>

namespace distdl::checkpoint {
namespace {
constexpr std::string_view kStepPrefix = "step-";

bool all_digits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

bool is_valid_part(std::string_view part) {
  return !part.empty() && part != "." && part != ".." &&
         std::all_of(part.begin(), part.end(), [](char c) { return c > ' ' && c < 0x7f; });
}

bool is_random(std::string_view text) {
  return text.size() >= 4 && text.size() <= 64 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

/// The step that a text consists of.
std::optional<Step> step_from(std::string_view digits) {
  Step step;
  if (!all_digits(digits) || std::from_chars(digits.begin(), digits.end(), step.value).ec != std::errc())
    return std::nullopt;
  return step;
}

/// Returns the part of a name before its last dot, if random digits are behind it.
std::optional<std::string_view> before_random(std::string_view name) {
  const auto dot = name.rfind('.');
  if (dot == std::string_view::npos || !is_random(name.substr(dot + 1))) return std::nullopt;
  return name.substr(0, dot);
}

template <class Visit>
void for_each_entry(const std::filesystem::path& root, Visit&& visit) {
  std::error_code error;
  std::filesystem::directory_iterator entry(root, error), end;
  for (; !error && entry != end; entry.increment(error)) visit(entry->path());
  if (error)
    throw StorageError(fmt::format("cannot read the folder \"{}\": {}", root.string(), errno_text(error.value())),
                       error == std::errc::no_such_file_or_directory ? ExitCode::incomplete
                       : is_shortage(error.value())                  ? ExitCode::config
                                                                     : ExitCode::storage);
}
}  // namespace

std::string step_folder_name(Step step) {
  return fmt::format("step-{:012d}", step.value);
}

std::optional<Step> step_of_folder(std::string_view name) {
  if (!name.starts_with(kStepPrefix)) return std::nullopt;
  std::string_view digits = name.substr(kStepPrefix.size());
  const std::optional<Step> step = step_from(digits);
  return step && name == step_folder_name(*step) ? step : std::nullopt;
}

EntryName parse_entry_name(std::string_view name) {
  using Kind = EntryName::Kind;
  if (name.find('/') != std::string_view::npos || name.find('\0') != std::string_view::npos)
    return {};  // no entry has such a name
  for (const char* own : {kOwnerName, kLatestName, kHistoryName, kTagsName, kQuarantineName})
    if (name == own) return {Kind::own};
  if (const auto step = step_of_folder(name)) return {Kind::checkpoint, step};
  const auto before = before_random(name);
  if (name.starts_with(kTrashPrefix)) {
    name.remove_prefix(std::string_view(kTrashPrefix).size());
    if (is_random(name)) return {Kind::trash};
    if (before && before->size() > std::string_view(kTrashPrefix).size())
      return {Kind::trash, step_of_folder(before->substr(std::string_view(kTrashPrefix).size()))};
    return {};
  }
  if (!before) return {};
  if (const auto step = step_of_folder(*before)) return {Kind::quarantined, step};
  if (before->starts_with(kStagePrefix))
    if (const auto step = step_from(before->substr(std::string_view(kStagePrefix).size()))) return {Kind::stage, step};
  for (std::string_view file : {kOwnerName, kLatestName, kHistoryName})
    if (before->starts_with('.') && before->substr(1) == file) return {Kind::half};
  return {};
}

std::string stage_name(Step step) {
  return fmt::format("{}{}.{}", kStagePrefix, step, random_hex(8));
}

std::string trash_name(std::string_view name_before) {
  // A name of the user's may be too long to be made longer.
  const bool is_ours = parse_entry_name(name_before).kind != EntryName::Kind::unknown;
  return fmt::format("{}{}{}{}", kTrashPrefix, is_ours ? name_before : "", is_ours ? "." : "", random_hex(8));
}

std::string quarantined_name(std::string_view label) {
  return fmt::format("{}.{}", label, random_hex(4));
}

std::string data_file_name(int writer) {
  return fmt::format("node{:04d}.h5", writer);
}

bool is_data_file_name(std::string_view name) {
  return name.size() <= 32 && name.starts_with("node") && name.ends_with(".h5") &&
         all_digits(name.substr(4, name.size() - 7));
}

bool is_valid_name(std::string_view name) {
  if (name.size() > 500) return false;
  for (;;) {
    auto slash = name.find('/');
    if (!is_valid_part(name.substr(0, slash))) return false;
    if (slash == std::string_view::npos) return true;
    name.remove_prefix(slash + 1);
  }
}

std::string_view name_within_another(const std::set<std::string_view>& names) {
  for (std::string_view name : names)
    for (auto slash = name.find('/'); slash != std::string_view::npos; slash = name.find('/', slash + 1))
      if (names.contains(name.substr(0, slash))) return name;
  return {};
}

std::map<Step, std::filesystem::path> step_folders(const std::filesystem::path& root) {
  std::map<Step, std::filesystem::path> found;
  for_each_entry(root, [&](const std::filesystem::path& path) {
    if (auto step = step_of_folder(path.filename().string())) found[*step] = path;
  });
  return found;
}

std::vector<std::filesystem::path> entries_with_prefix(const std::filesystem::path& root, std::string_view prefix) {
  std::vector<std::filesystem::path> found;
  for_each_entry(root, [&](const std::filesystem::path& path) {
    if (path.filename().string().starts_with(prefix)) found.push_back(path);
  });
  return found;
}

std::vector<std::filesystem::path> entries_of(const std::filesystem::path& root, EntryName::Kind kind) {
  std::vector<std::filesystem::path> found;
  for_each_entry(root, [&](const std::filesystem::path& path) {
    if (parse_entry_name(path.filename().native()).kind == kind) found.push_back(path);
  });
  return found;
}

}  // namespace distdl::checkpoint
