// SPDX-License-Identifier: Apache-2.0
// distdl checkpoint ls | show | verify | digest
#include <ctime>
#include <filesystem>
#include <functional>
#include <string>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <distdl/base/errors.hpp>
#include <distdl/checkpoint/layout.hpp>
#include <distdl/checkpoint/store.hpp>

namespace distdl::app {
namespace {
namespace fs = std::filesystem;
using checkpoint::Finding;
using checkpoint::Summary;
using nlohmann::json;

void print(const json& document) {
  fmt::print("{}\n", document.dump(2, ' ', false, json::error_handler_t::replace));
}

/// A run's folder stands for the checkpoints in it.
fs::path root_of(const std::string& folder) {
  fs::path path = fs::path(folder).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  std::error_code ignored;
  if (!fs::exists(path, ignored))
    throw StorageError(fmt::format("there is no folder \"{}\"", folder), ExitCode::incomplete);
  return fs::is_directory(path / "checkpoints", ignored) ? path / "checkpoints" : path;
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

json to_json(const Summary& summary) {
  return {{"step", summary.step.value},       {"folder", summary.folder.string()}, {"bytes", summary.bytes},
          {"written_at", summary.written_at}, {"world_size", summary.world_size},  {"tensors", summary.tensors.size()}};
}

/// All checkpoints of a root by step; those whose manifest cannot be read have no summary.
std::map<Step, std::optional<Summary>> all_in(const fs::path& root) {
  std::map<Step, std::optional<Summary>> all;
  for (const auto& [step, folder] : checkpoint::step_folders(root)) all[step];
  for (Summary& summary : checkpoint::list(root)) all[summary.step] = std::move(summary);
  return all;
}

void list(const std::string& folder, bool as_json) {
  auto all = all_in(root_of(folder));
  if (as_json) {
    json rows = json::array();
    for (const auto& [step, summary] : all)
      rows.push_back(summary ? to_json(*summary) : json{{"step", step.value}, {"damaged", true}});
    return print(rows);
  }
  fmt::print("{:>12}  {:>12}  {:<19}  {:>5}  {:>7}\n", "step", "size", "written", "ranks", "tensors");
  for (const auto& [step, summary] : all)
    if (summary)
      fmt::print("{:>12}  {:>12}  {:<19}  {:>5}  {:>7}\n", step, mebibytes(summary->bytes),
                 local_time(summary->written_at), summary->world_size, summary->tensors.size());
    else
      fmt::print("{:>12}  damaged; see distdl checkpoint verify\n", step);
}

void show(const std::string& folder, bool as_json) {
  Summary summary = checkpoint::open(root_of(folder));
  if (as_json) {
    json document = to_json(summary), tensors = json::array();
    for (const auto& entry : summary.tensors)
      tensors.push_back({{"name", entry.name}, {"dtype", tensor::name_of(entry.dtype)}, {"shape", entry.shape}});
    document["tensors"] = std::move(tensors);
    document["state"] = summary.state;
    return print(document);
  }
  fmt::print("folder   {}\nstep     {}\nwritten  {}\nranks    {}\nsize     {}\n\n", summary.folder.string(),
             summary.step, local_time(summary.written_at), summary.world_size, mebibytes(summary.bytes));
  std::size_t width = 6;
  for (const auto& entry : summary.tensors) width = std::max(width, entry.name.size());
  fmt::print("{:<{}}  {:<5}  shape\n", "tensor", width, "type");
  for (const auto& entry : summary.tensors)
    fmt::print("{:<{}}  {:<5}  {}\n", entry.name, width, tensor::name_of(entry.dtype), tensor::to_string(entry.shape));
  fmt::print("\nstate\n");
  for (const auto& [key, value] : summary.state) fmt::print("  {} ({} bytes)\n", key, value.size());
}

/// The checkpoints to verify: one, or all of a root.
std::vector<fs::path> folders_in(const fs::path& path) {
  if (checkpoint::step_of_folder(path.filename().string()) || fs::exists(path / checkpoint::kManifestName))
    return {path};
  std::vector<fs::path> folders;
  for (const auto& [step, folder] : checkpoint::step_folders(path)) folders.push_back(folder);
  if (folders.empty())
    throw StorageError(fmt::format("there is no checkpoint in \"{}\"", path.string()), ExitCode::incomplete);
  return folders;
}

void verify(const std::string& folder, bool as_json) {
  ExitCode worst = ExitCode::ok;
  json document = json::array();
  for (const fs::path& one : folders_in(root_of(folder))) {
    auto findings = checkpoint::verify(one);
    json found = json::array();
    if (!as_json) fmt::print("{}: {}\n", one.string(), findings.empty() ? "ok" : "damaged");
    for (const Finding& finding : findings) {
      // Damage counts more than an absence, and both more than a format that this program does not know.
      if (worst == ExitCode::ok || finding.kind < worst) worst = finding.kind;
      if (!as_json) fmt::print("  {}\n", finding.message);
      found.push_back({{"code", static_cast<int>(finding.kind)},
                       {"file", finding.file},
                       {"tensor", finding.tensor},
                       {"message", finding.message}});
    }
    document.push_back({{"folder", one.string()}, {"ok", findings.empty()}, {"findings", std::move(found)}});
  }
  if (as_json) print(document);
  if (worst != ExitCode::ok) throw CLI::RuntimeError(static_cast<int>(worst));
}

void digest(const std::string& folder, bool as_json) {
  Summary summary = checkpoint::open(root_of(folder));
  std::string hash = checkpoint::digest(summary);
  if (as_json) return print({{"step", summary.step.value}, {"sha256", hash}});
  fmt::print("step {} sha256 {}\n", summary.step, hash);
}

struct Action {
  const char* name;
  const char* what;
  void (*run)(const std::string& folder, bool as_json);
};

void add_action(CLI::App& parent, const Action& action) {
  struct Arguments {
    std::string folder;
    bool as_json = false;
  };
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = parent.add_subcommand(action.name, action.what);
  command->add_option("DIR", arguments->folder, "checkpoint folder, one checkpoint in it, or the folder of a run")
      ->required();
  command->add_flag("--json", arguments->as_json, "print one JSON document");
  command->callback([arguments, run = action.run] { run(arguments->folder, arguments->as_json); });
}
}  // namespace

void add_checkpoint_command(CLI::App& app) {
  CLI::App* checkpoint = app.add_subcommand("checkpoint", "look at and check the checkpoints of a run");
  checkpoint->require_subcommand(1);
  for (const Action& action :
       {Action{"ls", "list the checkpoints of a folder", &list},
        Action{"show", "what a checkpoint holds; of a folder, its newest", &show},
        Action{"verify", "check every byte; exit code 2 damaged, 3 incomplete, 4 newer format", &verify},
        Action{"digest", "step and SHA-256 of all tensors, however they are cut", &digest}})
    add_action(*checkpoint, action);
}

}  // namespace distdl::app
