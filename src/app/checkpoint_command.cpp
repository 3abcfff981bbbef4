// SPDX-License-Identifier: Apache-2.0
// distdl checkpoint ...: how the user says which checkpoint is meant, and what all of its actions print alike.
#include <charconv>
#include <ctime>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <distdl/app/checkpoint_actions.hpp>
#include <distdl/app/commands.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/checkpoint/layout.hpp>
#include <distdl/checkpoint/tags.hpp>

namespace distdl::app {
namespace fs = std::filesystem;
namespace {
fs::path without_last_slash(const std::string& folder) {
  fs::path path = fs::path(folder).lexically_normal();
  return path.has_filename() ? path : path.parent_path();
}

bool is_one_checkpoint(const fs::path& path) {
  std::error_code ignored;
  return checkpoint::step_of_folder(path.filename().string()) || fs::exists(path / checkpoint::kManifestName, ignored);
}

/// Where "STEP" or "TAG" of a root is.
fs::path folder_called(const fs::path& root, const std::string& name) {
  Step step;
  auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), step.value);
  if (error != std::errc() || end != name.data() + name.size()) {
    auto tags = checkpoint::read_tags(checkpoint::real_file_system(), root);
    auto found = tags.find(name);
    if (found == tags.end())
      throw StorageError(fmt::format("\"{}\" has no checkpoint tagged \"{}\"", root.string(), name),
                         ExitCode::incomplete);
    step = found->second;
  }
  fs::path folder = root / checkpoint::step_folder_name(step);
  std::error_code ignored;
  if (fs::exists(folder, ignored)) return folder;
  throw StorageError(
      fmt::format("there is no checkpoint of step {} in \"{}\"; see \"distdl checkpoint why\"", step, root.string()),
      ExitCode::incomplete);
}
}  // namespace

fs::path root_of(const std::string& folder) {
  fs::path path = without_last_slash(folder);
  std::error_code ignored;
  if (!fs::exists(path, ignored))
    throw StorageError(fmt::format("there is no folder \"{}\"", folder), ExitCode::incomplete);
  return fs::is_directory(path / "checkpoints", ignored) ? path / "checkpoints" : path;
}

fs::path checkpoint_folder(const std::string& name) {
  std::error_code ignored;
  auto at = name.rfind('@');
  if (!fs::exists(name, ignored) && at != name.npos)
    return folder_called(root_of(name.substr(0, at)), name.substr(at + 1));
  fs::path root = root_of(name);
  return is_one_checkpoint(root) ? root : checkpoint::open(root).folder;
}

checkpoint::Summary checkpoint_at(const std::string& name) {
  return checkpoint::open(checkpoint_folder(name));
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

void add_checkpoint_command(CLI::App& app) {
  CLI::App* checkpoint = app.add_subcommand("checkpoint", "look at, check, keep and exchange the checkpoints of a run");
  checkpoint->require_subcommand(1);
  add_checkpoint_listing(*checkpoint);
  add_checkpoint_checks(*checkpoint);
  add_checkpoint_diff(*checkpoint);
  add_checkpoint_keeping(*checkpoint);
  add_checkpoint_exchange(*checkpoint);
}

}  // namespace distdl::app
