// SPDX-License-Identifier: Apache-2.0
// distdl checkpoint ls | show | digest
#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <distdl/app/cli/pager.hpp>
#include <distdl/app/commands/checkpoint/actions.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/printable.hpp>
#include <distdl/base/shortage.hpp>
#include <distdl/base/work_progress.hpp>
#include <distdl/checkpoint/commit/tags.hpp>
#include <distdl/checkpoint/format/layout.hpp>
#include <distdl/checkpoint/inspect.hpp>

namespace distdl::app {
namespace {
namespace fs = std::filesystem;
using checkpoint::Summary;
using CheckpointJson = nlohmann::json;

CheckpointJson to_json(const Summary& summary) {
  CheckpointJson document{
      {"step", summary.step.value},         {"folder", summary.folder.string()},   {"bytes", summary.bytes},
      {"written_at", summary.written_at},   {"world_size", summary.world_size},    {"tensors", summary.tensors.size()},
      {"plain_bytes", summary.plain_bytes}, {"stored_bytes", summary.stored_bytes}};
  document["start"] = summary.start > 0 ? CheckpointJson(summary.start) : CheckpointJson();
  return document;
}

/// A checkpoint in a list: what its manifest says, or why that cannot be read.
struct Row {
  Step step;
  fs::path folder;
  std::vector<std::string> tags;
  std::optional<Summary> summary{};
  ExitCode code = ExitCode::ok;
  std::string problem{};
};

std::vector<Row> rows_of(const fs::path& root) {
  auto tags = checkpoint::read_tags(real_file_system(), root);
  std::vector<Row> rows;
  for (const auto& [step, folder] : checkpoint::step_folders(root)) {
    rows.push_back({step, folder, checkpoint::names_of(tags, step)});
    try {
      rows.back().summary = checkpoint::open(folder);
    } catch (const StorageError& error) {
      pass_on_shortage(error);
      rows.back().code = error.exit_code();
      rows.back().problem = error.what();
      if (is_gone(folder)) rows.pop_back();
    }
  }
  return rows;
}

CheckpointJson to_json(const Row& row) {
  CheckpointJson document = row.summary ? to_json(*row.summary)
                                        : CheckpointJson{{"step", row.step.value},
                                                         {"folder", row.folder.string()},
                                                         {"verdict", verdict_on(row.code)},
                                                         {"problem", row.problem}};
  document["tags"] = row.tags;
  return document;
}

std::string line_of(const Row& row) {
  std::string tags = fmt::format("{}", fmt::join(row.tags, " "));
  if (!row.summary) return fmt::format("{:>12}  {}: {}  {}", row.step, verdict_on(row.code), row.problem, tags);
  return fmt::format("{:>12}  {:>12}  {:<19}  {:>5}  {:>7}  {}", row.step, mebibytes(row.summary->bytes),
                     local_time(row.summary->written_at), row.summary->world_size, row.summary->tensors.size(), tags);
}

void list(const std::string& folder, bool as_json) {
  fs::path root = root_of(folder);
  auto rows = rows_of(root);
  if (as_json) {
    CheckpointJson document = CheckpointJson::array();
    for (const Row& row : rows) document.push_back(to_json(row));
    return print(document);
  }
  if (rows.empty()) return fmt::print("there is no checkpoint in \"{}\"\n", printable(root.string()));
  auto text =
      fmt::format("{:>12}  {:>12}  {:<19}  {:>5}  {:>7}  {}\n", "step", "size", "written", "ranks", "tensors", "tags");
  for (const Row& row : rows) {
    std::string line = line_of(row);
    text += printable(line.substr(0, line.find_last_not_of(' ') + 1)) + "\n";
  }
  print_paged(text);
}

void show(const std::string& name, bool as_json) {
  Summary summary = checkpoint_at(name);
  if (as_json) {
    CheckpointJson document = to_json(summary), tensors = CheckpointJson::array();
    for (const auto& entry : summary.tensors)
      tensors.push_back({{"name", entry.name}, {"dtype", tensor::code_of(entry.dtype)}, {"shape", entry.shape}});
    document["tensors"] = std::move(tensors);
    document["state"] = summary.state;
    return print(document);
  }
  auto text = fmt::format("folder   {}\nstep     {}\nstart    {}\nwritten  {}\nranks    {}\nsize     {}\n",
                          printable(summary.folder.string()), summary.step,
                          summary.start > 0 ? std::to_string(summary.start) : "not known",
                          local_time(summary.written_at), summary.world_size, mebibytes(summary.bytes));
  if (summary.stored_bytes < summary.plain_bytes)
    text +=
        fmt::format("tensors  {}, compressed to {}\n", mebibytes(summary.plain_bytes), mebibytes(summary.stored_bytes));
  text += "\n";
  std::size_t width = 6;
  for (const auto& entry : summary.tensors) width = std::max(width, printable(entry.name).size());
  text += fmt::format("{:<{}}  {:<5}  shape\n", "tensor", width, "type");
  for (const auto& entry : summary.tensors)
    text += fmt::format("{:<{}}  {:<5}  {}\n", printable(entry.name), width, tensor::code_of(entry.dtype),
                        tensor::to_string(entry.shape));
  text += "\nstate\n";
  width = 0;
  for (const auto& [key, value] : summary.state) width = std::max(width, printable(key).size());
  for (const auto& [key, value] : summary.state)
    text += fmt::format("  {:<{}}  {}\n", printable(key), width, shortened(value));
  print_paged(text);
}

void digest(const std::string& name, bool as_json) {
  Summary summary = checkpoint_at(name);
  std::optional<WorkProgress> progress;
  if (!as_json) progress.emplace("reading " + printable(summary.folder.string()), WorkUnit::bytes, summary.plain_bytes);
  std::string hash = checkpoint::digest(summary);
  progress.reset();  // the result takes its place
  if (as_json) return print({{"step", summary.step.value}, {"sha256", hash}});
  fmt::print("step {} sha256 {}\n", summary.step, hash);
}

void add_action(Command parent, const char* name, const char* what, const char* argument, const char* about,
                void (*run)(const std::string&, bool), std::vector<Example> examples) {
  struct Arguments {
    std::string name;
    bool as_json = false;
  };
  auto arguments = std::make_shared<Arguments>();
  Command command = parent.add_subcommand(name, what);
  command.add_option(argument, arguments->name, about).required();
  command.add_flag("--json", arguments->as_json, "Print one JSON document");
  command.examples(std::move(examples));
  command.callback([arguments, run] { run(arguments->name, arguments->as_json); });
}
}  // namespace

void add_checkpoint_listing(Command parent) {
  add_action(parent, "ls", "List the checkpoints of a folder", "DIR", kRootHelp, &list,
             {{"distdl checkpoint ls run", "List the checkpoints of a run"},
              {"distdl checkpoint ls run --json", "List them for programs"}});
  add_action(parent, "show", "Show what a checkpoint contains", "CKPT", kCheckpointHelp, &show,
             {{"distdl checkpoint show run", "Show the tensors of the newest checkpoint of a run"},
              {"distdl checkpoint show run@20", "Show those of step 20"}});
  add_action(parent, "digest", "Print the step and a SHA-256 of all tensors, whatever files they are in", "CKPT",
             kCheckpointHelp, &digest,
             {{"distdl checkpoint digest run", "Print what is the same for two runs that trained the same weights"}});
}

}  // namespace distdl::app
