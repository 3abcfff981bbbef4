// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>

#include <distdl/base/errors.hpp>
#include <distdl/checkpoint/layout.hpp>

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

template <class Visit>
void for_each_entry(const std::filesystem::path& root, Visit&& visit) {
  std::error_code error;
  std::filesystem::directory_iterator entry(root, error), end;
  for (; !error && entry != end; entry.increment(error)) visit(entry->path());
  if (error)
    throw StorageError(fmt::format("cannot read the folder \"{}\": {}", root.string(), errno_text(error.value())),
                       error == std::errc::no_such_file_or_directory ? ExitCode::incomplete : ExitCode::storage);
}
}  // namespace

std::string step_folder_name(Step step) {
  return fmt::format("step-{:012d}", step.value);
}

std::optional<Step> step_of_folder(std::string_view name) {
  if (!name.starts_with(kStepPrefix)) return std::nullopt;
  std::string_view digits = name.substr(kStepPrefix.size());
  Step step;
  if (!all_digits(digits) || std::from_chars(digits.begin(), digits.end(), step.value).ec != std::errc())
    return std::nullopt;
  if (name != step_folder_name(step)) return std::nullopt;
  return step;
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

}  // namespace distdl::checkpoint
