// SPDX-License-Identifier: Apache-2.0
// distdl checkpoint ...: how the user says which checkpoint is meant, and what all of its actions print alike.
#include <algorithm>
#include <charconv>
#include <ctime>

#include <nlohmann/json.hpp>

#include <distdl/app/cli/command_table.hpp>
#include <distdl/app/commands/checkpoint/actions.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/checkpoint/commit/tags.hpp>
#include <distdl/checkpoint/format/layout.hpp>
#include <distdl/checkpoint/inspect.hpp>

namespace distdl::app {
namespace fs = std::filesystem;
namespace {
/// Without a slash at its end, so that it has a last name.
fs::path existing_folder(const std::string& folder) {
  fs::path path = fs::path(folder).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  std::error_code ignored;
  if (!fs::exists(path, ignored))
    throw StorageError(
        fmt::format("there is no folder \"{}\"; give a run folder (run.dir), the \"checkpoints\" in it, or a "
                    "checkpoint there",
                    folder),
        ExitCode::incomplete);
  require<UsageError>(!fs::is_regular_file(path, ignored), "\"{}\" is a file, but a folder was expected", folder);
  return path;
}

bool is_one_checkpoint(const fs::path& path) {
  std::error_code ignored;
  return checkpoint::step_of_folder(path.filename().string()) || fs::exists(path / checkpoint::kManifestName, ignored);
}

fs::path root_in(const fs::path& folder) {
  std::error_code ignored;
  return fs::is_directory(folder / "checkpoints", ignored) ? folder / "checkpoints" : folder;
}

/// Where "STEP" or "TAG" of a root is.
fs::path folder_called(const fs::path& root, const std::string& name) {
  Step step;
  auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), step.value);
  if (error != std::errc() || end != name.data() + name.size()) {
    auto tags = checkpoint::read_tags(real_file_system(), root);
    auto found = tags.find(name);
    if (found == tags.end())
      throw StorageError(
          fmt::format("\"{}\" has no checkpoint tagged \"{}\"; \"distdl checkpoint ls {}\" lists steps and "
                      "tags",
                      root.string(), name, root.string()),
          ExitCode::incomplete);
    step = found->second;
  }
  fs::path folder = root / checkpoint::step_folder_name(step);
  std::error_code ignored;
  if (fs::exists(folder, ignored)) return folder;
  throw StorageError(fmt::format("there is no checkpoint of step {} in \"{}\"; see \"distdl checkpoint why {} {}\"",
                                 step, root.string(), step, root.string()),
                     ExitCode::incomplete);
}

/// The checkpoint that "DIR@STEP" or "DIR@TAG" stands for; nothing if `name` is a folder.
std::optional<fs::path> called(const std::string& name) {
  std::error_code ignored;
  auto at = name.rfind('@');
  if (at == std::string::npos || fs::exists(name, ignored)) return std::nullopt;
  return folder_called(root_of(name.substr(0, at)), name.substr(at + 1));
}
}  // namespace

fs::path root_of(const std::string& folder) {
  fs::path path = existing_folder(folder);
  require<UsageError>(!is_one_checkpoint(path), "\"{}\" is one checkpoint; give the folder that contains it", folder);
  return root_in(path);
}

fs::path checkpoint_folder(const std::string& name) {
  if (auto one = called(name)) return *one;
  return checkpoint::checkpoint_in(root_in(existing_folder(name)));
}

std::vector<fs::path> checkpoint_folders(const std::string& name) {
  if (auto one = called(name)) return {*one};
  fs::path path = root_in(existing_folder(name));
  if (is_one_checkpoint(path)) return {path};
  std::vector<fs::path> folders;
  for (const auto& [step, folder] : checkpoint::step_folders(path)) folders.push_back(folder);
  if (folders.empty()) return {checkpoint::checkpoint_in(path)};  // throws, saying what was expected
  return folders;
}

bool is_gone(const fs::path& folder) {
  std::error_code ignored;  // a link that leads nowhere is there
  return fs::symlink_status(folder, ignored).type() == fs::file_type::not_found;
}

checkpoint::Summary checkpoint_at(const std::string& name) {
  return checkpoint::open(checkpoint_folder(name));
}

Option add_number(Command command, const char* name, std::optional<std::int64_t>& value, std::int64_t least,
                  const char* help) {
  auto check = [least](const std::string& text) {
    std::int64_t number = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    bool good = error == std::errc() && end == text.data() + text.size() && number >= least;
    return good ? std::string()
                : fmt::format("\"{}\" was given, but a whole number, at least {}, was expected", text, least);
  };
  return command.add_option(name, value, help).check(check).type_name("N");
}

Option add_step(Command command, const char* name, std::optional<std::int64_t>& step, const char* help) {
  return add_number(command, name, step, 0, help).type_name("STEP");
}

const char* verdict_on(ExitCode code) {
  switch (code) {
    case ExitCode::ok:
      return "ok";
    case ExitCode::incomplete:
      return "incomplete";
    case ExitCode::incompatible:
      return "incompatible";
    case ExitCode::storage:
      return "unreadable";
    default:
      return "damaged";
  }
}

std::string shortened(const std::string& value) {
  bool plain =
      value.size() <= 60 && std::all_of(value.begin(), value.end(), [](char c) { return c >= ' ' && c < 0x7f; });
  return plain ? fmt::format("\"{}\"", value) : fmt::format("{} bytes", value.size());
}

void print(const nlohmann::json& document) {
  fmt::print("{}\n", document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

std::string local_time(std::int64_t seconds) {
  auto time = static_cast<std::time_t>(seconds);
  std::tm parts{};
  char text[32];
  if (!::localtime_r(&time, &parts) || std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &parts) == 0) return "?";
  return text;
}

std::string mebibytes(std::uint64_t bytes) {
  return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20));
}

void add_checkpoint_command(Command app) {
  Command checkpoint = app.add_subcommand("checkpoint", "List, verify, keep and exchange the checkpoints of a run");
  checkpoint.require_subcommand();
  add_checkpoint_listing(checkpoint);
  add_checkpoint_checks(checkpoint);
  add_checkpoint_diff(checkpoint);
  add_checkpoint_keeping(checkpoint);
  add_checkpoint_exchange(checkpoint);
}

}  // namespace distdl::app
