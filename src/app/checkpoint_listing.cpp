// SPDX-License-Identifier: Apache-2.0
// distdl checkpoint ls | show | digest
#include <algorithm>
#include <map>
#include <memory>
#include <optional>

#include <CLI/CLI.hpp>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <distdl/app/checkpoint_actions.hpp>
#include <distdl/checkpoint/layout.hpp>
#include <distdl/checkpoint/tags.hpp>

namespace distdl::app {
namespace {
namespace fs = std::filesystem;
using checkpoint::Summary;
using nlohmann::json;

json to_json(const Summary& summary) {
  return {
      {"step", summary.step.value},         {"folder", summary.folder.string()},   {"bytes", summary.bytes},
      {"written_at", summary.written_at},   {"world_size", summary.world_size},    {"tensors", summary.tensors.size()},
      {"plain_bytes", summary.plain_bytes}, {"stored_bytes", summary.stored_bytes}};
}

/// All checkpoints of a root by step; those whose manifest cannot be read have no summary.
std::map<Step, std::optional<Summary>> all_in(const fs::path& root) {
  std::map<Step, std::optional<Summary>> all;
  for (const auto& [step, folder] : checkpoint::step_folders(root)) all[step];
  for (Summary& summary : checkpoint::list(root)) all[summary.step] = std::move(summary);
  return all;
}

void list(const std::string& folder, bool as_json) {
  fs::path root = root_of(folder);
  auto all = all_in(root);
  auto tags = checkpoint::read_tags(checkpoint::real_file_system(), root);
  json rows = json::array();
  if (!as_json)
    fmt::print("{:>12}  {:>12}  {:<19}  {:>5}  {:>7}  {}\n", "step", "size", "written", "ranks", "tensors", "tags");
  for (const auto& [step, summary] : all) {
    auto names = checkpoint::names_of(tags, step);
    json row = summary ? to_json(*summary) : json{{"step", step.value}, {"damaged", true}};
    row["tags"] = names;
    rows.push_back(std::move(row));
    if (as_json) continue;
    auto line = summary ? fmt::format("{:>12}  {:>12}  {:<19}  {:>5}  {:>7}  {}", step, mebibytes(summary->bytes),
                                      local_time(summary->written_at), summary->world_size, summary->tensors.size(),
                                      fmt::join(names, " "))
                        : fmt::format("{:>12}  damaged; see distdl checkpoint verify  {}", step, fmt::join(names, " "));
    fmt::print("{}\n", line.substr(0, line.find_last_not_of(' ') + 1));
  }
  if (as_json) print(rows);
}

void show(const std::string& name, bool as_json) {
  Summary summary = checkpoint_at(name);
  if (as_json) {
    json document = to_json(summary), tensors = json::array();
    for (const auto& entry : summary.tensors)
      tensors.push_back({{"name", entry.name}, {"dtype", tensor::name_of(entry.dtype)}, {"shape", entry.shape}});
    document["tensors"] = std::move(tensors);
    document["state"] = summary.state;
    return print(document);
  }
  fmt::print("folder   {}\nstep     {}\nwritten  {}\nranks    {}\nsize     {}\n", summary.folder.string(), summary.step,
             local_time(summary.written_at), summary.world_size, mebibytes(summary.bytes));
  if (summary.stored_bytes < summary.plain_bytes)
    fmt::print("tensors  {}, compressed to {}\n", mebibytes(summary.plain_bytes), mebibytes(summary.stored_bytes));
  fmt::print("\n");
  std::size_t width = 6;
  for (const auto& entry : summary.tensors) width = std::max(width, entry.name.size());
  fmt::print("{:<{}}  {:<5}  shape\n", "tensor", width, "type");
  for (const auto& entry : summary.tensors)
    fmt::print("{:<{}}  {:<5}  {}\n", entry.name, width, tensor::name_of(entry.dtype), tensor::to_string(entry.shape));
  fmt::print("\nstate\n");
  for (const auto& [key, value] : summary.state) fmt::print("  {} ({} bytes)\n", key, value.size());
}

void digest(const std::string& name, bool as_json) {
  Summary summary = checkpoint_at(name);
  std::string hash = checkpoint::digest(summary);
  if (as_json) return print({{"step", summary.step.value}, {"sha256", hash}});
  fmt::print("step {} sha256 {}\n", summary.step, hash);
}

void add_action(CLI::App& parent, const char* name, const char* what, const char* about,
                void (*run)(const std::string&, bool)) {
  struct Arguments {
    std::string name;
    bool as_json = false;
  };
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = parent.add_subcommand(name, what);
  command->add_option("DIR", arguments->name, about)->required();
  command->add_flag("--json", arguments->as_json, "print one JSON document");
  command->callback([arguments, run] { run(arguments->name, arguments->as_json); });
}
}  // namespace

void add_checkpoint_listing(CLI::App& parent) {
  add_action(parent, "ls", "list the checkpoints of a folder", kRootHelp, &list);
  add_action(parent, "show", "what a checkpoint holds", kCheckpointHelp, &show);
  add_action(parent, "digest", "step and SHA-256 of all tensors, however they are cut", kCheckpointHelp, &digest);
}

}  // namespace distdl::app
