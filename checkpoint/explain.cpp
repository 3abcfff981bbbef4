// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <distdl/checkpoint/commit/history.hpp>
#include <distdl/checkpoint/explain.hpp>
#include <distdl/checkpoint/format/layout.hpp>
#include <distdl/files/file_operations.hpp>

namespace distdl::checkpoint {
namespace {
using Kind = EntryName::Kind;
constexpr std::uint64_t kLongestReason = 64 << 10;

/// The checkpoints of a root, each read once at most.
class CheckedFolders {
 public:
  explicit CheckedFolders(std::map<Step, Path> folders) : folders_(std::move(folders)) {}
  const std::map<Step, Path>& folders() const { return folders_; }

  const std::vector<Finding>& findings(Step step) {
    auto known = findings_.find(step);
    if (known == findings_.end()) known = findings_.emplace(step, verify(folders_.at(step))).first;
    return known->second;
  }

  /// Whether a run removed one of the folders before it was read.
  bool are_overtaken() const {
    return std::any_of(findings_.begin(), findings_.end(), [&](const auto& finding) {
      std::error_code ignored;  // a link that leads nowhere is there
      auto status = std::filesystem::symlink_status(folders_.at(finding.first), ignored);
      return !finding.second.empty() && status.type() == std::filesystem::file_type::not_found;
    });
  }

 private:
  std::map<Step, Path> folders_;
  std::map<Step, std::vector<Finding>> findings_;
};

/// Returns the checkpoint that Store::newest_valid would take.
Explanation restart_from(CheckedFolders& all) {
  Explanation restart;
  for (auto newest = all.folders().rbegin(); newest != all.folders().rend(); ++newest) {
    const auto& findings = all.findings(newest->first);
    if (findings.empty()) {
      restart.instead = newest->first;
      break;
    }
    if (worst_of(findings).kind == ExitCode::incompatible) {
      restart.barrier = newest->first;
      break;
    }
  }
  return restart;
}

Standing standing_of(ExitCode kind) {
  if (kind == ExitCode::incompatible) return Standing::incompatible;
  if (kind == ExitCode::storage) return Standing::unreadable;
  return kind == ExitCode::incomplete ? Standing::incomplete : Standing::damaged;
}

Explanation of_present(CheckedFolders& all, Step step, const Explanation& restart) {
  Explanation found;
  found.code = ExitCode::ok;
  const auto& findings = all.findings(step);
  if (!findings.empty()) {
    found.code = worst_of(findings).kind;
    found.standing = standing_of(found.code);
    found.reason = worst_of(findings).message;
  } else if (restart.instead == step) {
    found.standing = Standing::used;
    found.reason = "it is the newest intact one";
  } else {
    found.standing = Standing::older;
    found.reason = restart.barrier
                       ? fmt::format("it is intact, but step {} is newer", *restart.barrier)
                       : fmt::format("it is intact, but step {} is newer and also intact", *restart.instead);
  }
  return found;
}

/// The newest of the quarantined folders of this step; nothing if there is none.
std::optional<Explanation> of_quarantined(const Path& root, Step step) {
  std::error_code ignored;
  Path room = root / kQuarantineName;
  if (!std::filesystem::exists(room, ignored)) return std::nullopt;
  std::vector<Path> places;
  for (const std::string& name : names_in(room))
    if (const EntryName entry = parse_entry_name(name); entry.kind == Kind::quarantined && entry.step == step)
      places.push_back(room / name);
  if (places.empty()) return std::nullopt;
  auto age = [&](const Path& place) { return std::filesystem::last_write_time(place, ignored); };
  auto last =
      std::max_element(places.begin(), places.end(), [&](const Path& a, const Path& b) { return age(a) < age(b); });
  std::string reason =
      read_text(real_file_system(), *last / kReasonName, kLongestReason).value_or("no reason is recorded");
  while (reason.ends_with('\n')) reason.pop_back();
  return Explanation{Standing::quarantined, fmt::format("it is in \"{}\": {}", last->string(), reason)};
}

std::optional<Explanation> of_stage(const Path& root, Step step) {
  auto stages = entries_of(root, Kind::stage);
  std::erase_if(stages, [&](const Path& stage) { return parse_entry_name(stage.filename().native()).step != step; });
  if (stages.empty()) return std::nullopt;
  return Explanation{Standing::being_written,
                     fmt::format("\"{}\" has not been committed: a run is writing it, or died while it wrote it",
                                 stages.front().string())};
}

Explanation of_event(const Event& event) {
  switch (event.fate) {
    case Fate::collected:
      return {Standing::collected, fmt::format("it was deleted: {}", event.reason)};
    case Fate::failed:
      return {Standing::failed, event.reason};
    case Fate::abandoned:
      return {Standing::abandoned, event.reason};
    case Fate::quarantined:
      return {Standing::quarantined, fmt::format("{}; it is no longer in {}", event.reason, kQuarantineName)};
    case Fate::saved:
    case Fate::taken:
      break;
  }
  return {Standing::removed, "it was saved, and was later removed by hand"};
}

std::optional<Explanation> of_history(const Path& root, Step step) {
  auto events = read_history(real_file_system(), root);
  auto last = std::find_if(events.rbegin(), events.rend(), [&](const Event& event) { return event.step == step; });
  return last == events.rend() ? std::nullopt : std::optional(of_event(*last));
}

/// The history knows what came last, but may have lost lines.
std::optional<Explanation> of_gone(const Path& root, Step step) {
  auto told = of_history(root, step);
  if (told && told->standing != Standing::quarantined && told->standing != Standing::removed) return told;
  auto quarantined = of_quarantined(root, step);
  return quarantined ? quarantined : told;
}
}  // namespace

std::string_view name_of(Standing standing) {
  switch (standing) {
    case Standing::used:
      return "used";
    case Standing::older:
      return "older";
    case Standing::damaged:
      return "damaged";
    case Standing::incomplete:
      return "incomplete";
    case Standing::unreadable:
      return "unreadable";
    case Standing::incompatible:
      return "incompatible";
    case Standing::being_written:
      return "being written";
    case Standing::quarantined:
      return "quarantined";
    case Standing::collected:
      return "collected";
    case Standing::skipped:
      return "skipped";
    case Standing::snapshot:
      return "snapshot only";
    case Standing::failed:
      return "failed";
    case Standing::abandoned:
      return "superseded";
    case Standing::removed:
      return "removed";
    case Standing::never:
      return "never saved";
  }
  return "?";
}

const Finding& worst_of(const std::vector<Finding>& findings) {
  return *std::min_element(findings.begin(), findings.end(),
                           [](const Finding& a, const Finding& b) { return a.kind < b.kind; });
}

Explanation explain(const std::filesystem::path& root, Step step) {
  CheckedFolders all(step_folders(root));
  Explanation restart = restart_from(all), found;
  found.reason = "this folder has no record of it";
  if (all.folders().contains(step))
    found = of_present(all, step, restart);
  else if (auto staged = of_stage(root, step))
    found = *staged;
  else if (auto gone = of_gone(root, step))
    found = *gone;
  if (all.are_overtaken()) return explain(root, step);
  found.instead = restart.instead;
  found.barrier = restart.barrier;
  for (const auto& [each, folder] : all.folders()) found.present.push_back(each);
  return found;
}

}  // namespace distdl::checkpoint
