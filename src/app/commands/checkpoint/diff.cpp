// SPDX-License-Identifier: Apache-2.0
// distdl checkpoint diff
#include <algorithm>
#include <memory>
#include <optional>

#include <nlohmann/json.hpp>

#include <distdl/app/commands/checkpoint/actions.hpp>
#include <distdl/base/printable.hpp>
#include <distdl/base/work_progress.hpp>
#include <distdl/checkpoint/difference.hpp>

namespace distdl::app {
namespace {
using checkpoint::Difference;
using checkpoint::Summary;
using checkpoint::TensorEntry;
using CheckpointJson = nlohmann::json;

std::string form_of(const TensorEntry& entry) {
  return fmt::format("{} {}", tensor::code_of(entry.dtype), tensor::to_string(entry.shape));
}

CheckpointJson to_json(const TensorEntry& entry) {
  return {{"name", entry.name}, {"dtype", tensor::code_of(entry.dtype)}, {"shape", entry.shape}};
}

CheckpointJson to_json(const std::vector<TensorEntry>& entries) {
  CheckpointJson rows = CheckpointJson::array();
  for (const TensorEntry& entry : entries) rows.push_back(to_json(entry));
  return rows;
}

CheckpointJson to_json(const Summary& first, const Summary& second, const Difference& difference) {
  CheckpointJson changed = CheckpointJson::array(), reshaped = CheckpointJson::array();
  for (const auto& tensor : difference.changed) {
    CheckpointJson row = to_json(tensor.entry);
    row.update({{"elements", tensor.elements},
                {"different", tensor.different},
                {"not_finite", tensor.not_finite},
                {"max_abs", tensor.absolute},
                {"max_rel", tensor.relative}});
    changed.push_back(std::move(row));
  }
  for (const auto& tensor : difference.reshaped)
    reshaped.push_back({{"before", to_json(tensor.before)}, {"after", to_json(tensor.after)}});
  return {{"first", first.folder.string()},
          {"second", second.folder.string()},
          {"same", difference.none()},
          {"equal", difference.equal},
          {"removed", to_json(difference.removed)},
          {"added", to_json(difference.added)},
          {"reshaped", std::move(reshaped)},
          {"changed", std::move(changed)},
          {"state",
           {{"removed", difference.state_removed},
            {"added", difference.state_added},
            {"changed", difference.state_changed}}}};
}

std::size_t width_of_names(const Difference& difference) {
  std::size_t width = 6;
  auto see = [&](const TensorEntry& entry) { width = std::max(width, printable(entry.name).size()); };
  std::for_each(difference.removed.begin(), difference.removed.end(), see);
  std::for_each(difference.added.begin(), difference.added.end(), see);
  for (const auto& tensor : difference.reshaped) see(tensor.before);
  for (const auto& tensor : difference.changed) see(tensor.entry);
  return width;
}

void print_table(const Summary& first, const Summary& second, const Difference& difference) {
  fmt::print("- {}\n+ {}\n", printable(first.folder.string()), printable(second.folder.string()));
  std::size_t width = width_of_names(difference);
  for (const auto& entry : difference.removed)
    fmt::print("- {:<{}}  {}\n", printable(entry.name), width, form_of(entry));
  for (const auto& entry : difference.added) fmt::print("+ {:<{}}  {}\n", printable(entry.name), width, form_of(entry));
  for (const auto& [before, after] : difference.reshaped)
    fmt::print("! {:<{}}  {} became {}\n", printable(before.name), width, form_of(before), form_of(after));
  if (!difference.changed.empty())
    fmt::print("  {:<{}}  {:>12}  {:>12}  {:>10}  {:>10}\n", "tensor", width, "different", "of", "max abs", "max rel");
  for (const auto& tensor : difference.changed)
    fmt::print("~ {:<{}}  {:>12}  {:>12}  {:>10.3g}  {:>10.3g}{}\n", printable(tensor.entry.name), width,
               tensor.different, tensor.elements, tensor.absolute, tensor.relative,
               tensor.not_finite ? fmt::format("  {} not finite", tensor.not_finite) : "");
  for (const auto& key : difference.state_removed)
    fmt::print("- state {}: {}\n", printable(key), shortened(first.state.at(key)));
  for (const auto& key : difference.state_added)
    fmt::print("+ state {}: {}\n", printable(key), shortened(second.state.at(key)));
  for (const auto& key : difference.state_changed)
    fmt::print("~ state {}: {} became {}\n", printable(key), shortened(first.state.at(key)),
               shortened(second.state.at(key)));
  fmt::print("{} tensors are equal{}\n", difference.equal, difference.none() ? ", and so is the state" : "");
}
}  // namespace

void add_checkpoint_diff(Command parent) {
  struct Arguments {
    std::string first, second;
    bool as_json = false;
  };
  auto arguments = std::make_shared<Arguments>();
  Command command = parent.add_subcommand("diff", "Show how two checkpoints differ");
  command.add_option("A", arguments->first, kCheckpointHelp).required();
  command.add_option("B", arguments->second, kCheckpointHelp).required();
  command.add_flag("--json", arguments->as_json, "Print one JSON document");
  command.examples({{"distdl checkpoint diff run@10 run@20", "Compare two steps of a run"},
                    {"distdl checkpoint diff run small", "Compare the newest checkpoints of two runs"}});
  command.callback([arguments] {
    Summary first = checkpoint_at(arguments->first), second = checkpoint_at(arguments->second);
    std::optional<WorkProgress> progress;
    if (!arguments->as_json)
      progress.emplace("comparing " + printable(first.folder.string()), WorkUnit::bytes,
                       first.plain_bytes + second.plain_bytes);
    Difference difference = checkpoint::compare(first, second);
    progress.reset();  // the result takes its place
    if (arguments->as_json) return print(to_json(first, second, difference));
    print_table(first, second, difference);
  });
}

}  // namespace distdl::app
