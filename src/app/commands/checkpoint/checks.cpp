// SPDX-License-Identifier: Apache-2.0
// distdl checkpoint verify | why
#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include <nlohmann/json.hpp>

#include <distdl/app/cli/result_output.hpp>
#include <distdl/app/commands/checkpoint/actions.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/printable.hpp>
#include <distdl/base/work_progress.hpp>
#include <distdl/checkpoint/explain.hpp>
#include <distdl/checkpoint/format/layout.hpp>
#include <distdl/checkpoint/orphaned_snapshots.hpp>
#include <distdl/observe/record_lines.hpp>

namespace distdl::app {
namespace {
namespace fs = std::filesystem;
using checkpoint::Depth;
using checkpoint::Explanation;
using checkpoint::Standing;
using CheckpointJson = nlohmann::json;

ExitCode code_of(const std::vector<checkpoint::Finding>& findings) {
  return findings.empty() ? ExitCode::ok : checkpoint::worst_of(findings).kind;
}

CheckpointJson to_json(const checkpoint::Finding& finding) {
  CheckpointJson row{{"code", static_cast<int>(finding.kind)},
                     {"file", finding.file},
                     {"tensor", finding.tensor},
                     {"message", finding.message}};
  if (finding.block) row["block"] = *finding.block;
  if (finding.expected) row["expected"] = fmt::format("{:08x}", *finding.expected);
  if (finding.found) row["found"] = fmt::format("{:08x}", *finding.found);
  return row;
}

/// Bytes of all tensors; 0 if the manifest does not tell.
std::uint64_t bytes_to_verify(const fs::path& folder) try {
  return checkpoint::open(folder).plain_bytes;
} catch (const Error&) {
  return 0;
}

/// Nothing if a run collected it meanwhile.
std::optional<std::vector<checkpoint::Finding>> verify_unless_collected(const fs::path& folder, Depth depth) try {
  std::vector<checkpoint::Finding> findings;
  {
    const WorkProgress progress("verifying " + printable(folder.string()), WorkUnit::bytes, bytes_to_verify(folder));
    findings = checkpoint::verify(folder, std::min(depth, Depth::bytes));
  }  // its thread has ended: what follows forks
  if (depth == Depth::structure) checkpoint::verify_structure(folder, findings);
  if (!findings.empty() && is_gone(folder)) return std::nullopt;
  return findings;
} catch (const StorageError&) {
  if (!is_gone(folder)) throw;
  return std::nullopt;
}

void verify(const std::string& name, Depth depth, bool as_json) {
  std::vector<checkpoint::Finding> all;
  CheckpointJson document = CheckpointJson::array();
  for (const fs::path& one : checkpoint_folders(name)) {
    const auto outcome = verify_unless_collected(one, depth);
    if (!outcome) {
      if (!as_json) fmt::print("{}: deleted by a run meanwhile\n", printable(one.string()));
      continue;
    }
    const auto& findings = *outcome;
    const char* verdict = verdict_on(code_of(findings));
    CheckpointJson found = CheckpointJson::array();
    if (!as_json) fmt::print("{}: {}\n", printable(one.string()), verdict);
    for (const checkpoint::Finding& finding : findings) {
      if (!as_json) fmt::print("  {}\n", printable(finding.message));
      found.push_back(to_json(finding));
    }
    document.push_back(
        {{"folder", one.string()}, {"ok", findings.empty()}, {"verdict", verdict}, {"findings", std::move(found)}});
    all.insert(all.end(), findings.begin(), findings.end());
    flush_output();  // the next one may take minutes
  }
  if (as_json) print(document);
  if (document.empty())
    throw StorageError(
        fmt::format("a run deleted the checkpoints in \"{}\" before they were verified; try again", name),
        ExitCode::incomplete);
  if (ExitCode worst = code_of(all); worst != ExitCode::ok) throw Ended(static_cast<int>(worst));
}

/// Takes information about a step from the run's journal, beside the folder of checkpoints, if the folder itself has
/// none.
void ask_journal(const fs::path& root, Step step, Explanation& answer) {
  std::int64_t last = -1;
  observe::for_each_record(root.parent_path() / "journal.jsonl", [&](const records::Row& row) {
    const auto told = step_of(row.record);
    if (told) last = std::max(last, told->value);
    if (told != step) return;
    if (row.is<records::CheckpointSaved>()) answer = {Standing::removed, "the run's journal says that it was saved"};
    if (const auto* const failed = row.as<records::SaveFailed>()) answer = {Standing::failed, failed->reason};
    if (answer.standing == Standing::removed || answer.standing == Standing::failed) return;  // these tell more
    if (row.is<records::SaveSkipped>()) answer = {Standing::skipped, "the save before it was still under way"};
    if (const auto* const failed = row.as<records::SnapshotFailed>()) answer = {Standing::failed, failed->reason};
    if (row.is<records::SnapshotKept>())
      answer = {Standing::snapshot, "it was not a checkpoint, but a snapshot in the nodes' memory or on their disks"};
  });
  if (answer.standing == Standing::never && last >= 0)
    answer.reason += step.value > last ? fmt::format(", and the run's journal ends at step {}", last)
                                       : std::string(", nor does the run's journal");
}

std::string restart_of(const Explanation& found) {
  if (found.instead) return fmt::format("step {}", *found.instead);
  if (found.barrier)
    return fmt::format("no checkpoint: it fails at step {}, whose format this program does not know", *found.barrier);
  return "no checkpoint: it begins at step 0";
}

std::string listing(const std::vector<Step>& steps) {
  std::string text;
  for (std::size_t i = 0; i < steps.size(); ++i) text += fmt::format("{}{}", i ? ", " : "", steps[i]);
  return text.empty() ? "none" : text;
}

/// The snapshots of one step that this node has.
struct Kept {
  std::set<int> ranks{};  ///< whose
  int parities = 0;
  bool in_memory = false, on_disk = false;
};
using KeptSteps = std::map<std::pair<std::int64_t, int>, Kept>;  // step and world

KeptSteps kept_here(const fs::path& root, const std::string& disk) {
  KeptSteps kept;
  for (const auto& one : checkpoint::orphaned_snapshots(root, disk)) {
    Kept& here = kept[{one.label.step.value, one.label.world}];
    one.is_parity ? void(++here.parities) : void(here.ranks.insert(one.label.rank));
    (one.on_disk ? here.on_disk : here.in_memory) = true;
  }
  return kept;
}

void print_snapshots(const KeptSteps& kept) {
  fmt::print("snapshots on this node:{}\n", kept.empty() ? " none" : "");
  for (const auto& [key, here] : kept)
    fmt::print("  step {}: of {} of {} ranks{}, {}\n", key.first, here.ranks.size(), key.second,
               here.parities > 0 ? fmt::format(", and {} parities", here.parities) : "",
               !here.on_disk    ? "in memory"
               : here.in_memory ? "in memory and on disk"
                                : "on disk");
  fmt::print(
      "A run that keeps snapshots (checkpoint.memory_every and similar keys) uses the newest one of which its nodes "
      "still "
      "have "
      "all parts, if it is newer than the checkpoint; \"distdl run --no-snapshots\" ignores snapshots.\n");
}

CheckpointJson to_json(const KeptSteps& kept) {
  CheckpointJson rows = CheckpointJson::array();
  for (const auto& [key, here] : kept)
    rows.push_back({{"step", key.first},
                    {"world_size", key.second},
                    {"ranks", here.ranks},
                    {"parities", here.parities},
                    {"in_memory", here.in_memory},
                    {"on_disk", here.on_disk}});
  return rows;
}

void why(std::int64_t number, const std::string& folder, const std::string& disk, bool as_json) {
  fs::path root = root_of(folder);
  Step step(number);
  const KeptSteps kept = kept_here(root, disk);
  Explanation found = checkpoint::explain(root, step);
  if (found.standing == Standing::never) {
    Explanation told = found;
    ask_journal(root, step, told);
    found.standing = told.standing;
    found.reason = told.reason;
  }
  if (as_json) {
    CheckpointJson document{{"step", number},
                            {"standing", checkpoint::name_of(found.standing)},
                            {"reason", found.reason},
                            {"code", static_cast<int>(found.code)},
                            {"restart_takes", nullptr},
                            {"restart_ends_at", nullptr},
                            {"present", CheckpointJson::array()}};
    if (found.instead) document["restart_takes"] = found.instead->value;
    if (found.barrier) document["restart_ends_at"] = found.barrier->value;
    for (Step each : found.present) document["present"].push_back(each.value);
    document["snapshots_here"] = to_json(kept);
    print(document);
  } else {
    fmt::print("step {}: {}\n  {}\na restart from this folder uses {}\ncheckpoints in it: {}\n", step,
               checkpoint::name_of(found.standing), printable(found.reason), printable(restart_of(found)),
               listing(found.present));
    print_snapshots(kept);
  }
  if (found.code != ExitCode::ok) throw Ended(static_cast<int>(found.code));
}

void add_verify(Command parent) {
  struct Arguments {
    std::string name;
    bool deep = false, quick = false, as_json = false;
  };
  auto arguments = std::make_shared<Arguments>();
  Command command =
      parent.add_subcommand("verify", "Verify every byte; exit code 2: damaged, 3: incomplete, 4: another format");
  command
      .add_option(
          "CKPT", arguments->name,
          "A checkpoint: its folder, DIR@STEP or DIR@TAG; for the folder of checkpoints or of a run: all of them")
      .required();
  auto deep = command.add_flag(
      "--deep", arguments->deep,
      "Also verify that HDF5 finds exactly what the manifest lists, and that the folder has no other files");
  command.add_flag("--quick", arguments->quick, "Verify only manifests and file sizes").excludes(deep);
  command.add_flag("--json", arguments->as_json, "Print one JSON document");
  command.examples({{"distdl checkpoint verify run", "Verify all checkpoints of a run"},
                    {"distdl checkpoint verify run@20 --deep", "Verify one, with the structure of its files"}});
  command.callback([arguments] {
    Depth depth = arguments->deep ? Depth::structure : arguments->quick ? Depth::sizes : Depth::bytes;
    verify(arguments->name, depth, arguments->as_json);
  });
}

void add_why(Command parent) {
  struct Arguments {
    std::optional<std::int64_t> step;
    std::string folder, disk;
    bool as_json = false;
  };
  auto arguments = std::make_shared<Arguments>();
  Command command = parent.add_subcommand("why",
                                          "Explain why a step is missing, or why a restart does not use it, and list "
                                          "the snapshots of this node; exit codes as for verify");
  add_step(command, "STEP", arguments->step, "Step to explain").required();
  command.add_option("DIR", arguments->folder, kRootHelp).required();
  command.add_option("--disk", arguments->disk, "The run's checkpoint.disk_folder: also list its snapshots")
      .type_name("FOLDER");
  command.add_flag("--json", arguments->as_json, "Print one JSON document");
  command.examples({{"distdl checkpoint why 30 run", "See why a restart would not use step 30"}});
  command.callback([arguments] { why(*arguments->step, arguments->folder, arguments->disk, arguments->as_json); });
}
}  // namespace

void add_checkpoint_checks(Command parent) {
  add_verify(parent);
  add_why(parent);
}

}  // namespace distdl::app
