// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <charconv>

#include <fmt/ranges.h>
#include <sys/stat.h>

#include <distdl/base/clock.hpp>
#include <distdl/base/log.hpp>
#include <distdl/base/shortage.hpp>
#include <distdl/checkpoint/commit/history.hpp>
#include <distdl/checkpoint/commit/ownership.hpp>
#include <distdl/checkpoint/commit/retention.hpp>
#include <distdl/checkpoint/commit/tags.hpp>
#include <distdl/checkpoint/format/layout.hpp>
#include <distdl/checkpoint/format/manifest.hpp>

namespace distdl::checkpoint {
namespace {
using Kind = EntryName::Kind;
constexpr std::int64_t kHalfIsDead = 3600;  // seconds

/// The oldest checkpoint of each full interval of `every` steps; the first interval has none.
std::map<std::int64_t, Step> milestones(const std::map<Step, Path>& folders, std::int64_t every) {
  std::map<std::int64_t, Step> first;
  if (every <= 0) return first;
  for (const auto& [step, folder] : folders)
    if (step.value >= every) first.try_emplace(step.value / every, step);
  return first;
}
/// Restores a checkpoint that was tagged just when a dead run had moved it away. It is kept if the tags cannot be read.
bool bring_back(FileSystem& files, const Path& root, const Path& trash) try {
  const auto step = parse_entry_name(trash.filename().native()).step;
  if (!step || !is_there(trash / kManifestName) || names_of(read_tags(files, root), *step).empty()) return false;
  const Path folder = root / step_folder_name(*step);
  if (is_there(folder)) return false;
  move_folder(files, trash, folder);
  sync_folder(files, root);
  log(Severity::warning, "restored \"{}\", which has a tag", folder.string());
  return true;
} catch (const StorageError& error) {
  log(Severity::warning, "\"{}\" was not deleted: {}", trash.string(), error.what());
  return true;
}

/// One warning for all names that are none of ours, if any are.
void warn_of_strangers(const Path& root) {
  constexpr std::size_t kMostNamed = 5;
  const std::vector<Path> strangers = entries_of(root, Kind::unknown);
  std::string names;
  for (std::size_t i = 0; i < std::min(strangers.size(), kMostNamed); ++i)
    names += fmt::format("{}{:?}", i > 0 ? ", " : "", strangers[i].filename().native());
  if (strangers.size() > kMostNamed) names += fmt::format(" and {} more", strangers.size() - kMostNamed);
  if (!names.empty())
    log(Severity::warning, "ignored in \"{}\", because distdl does not use such names: {}", root.string(), names);
}
}  // namespace

void quarantine(FileSystem& files, const Path& root, const Path& folder, const std::string& label,
                const std::string& reason) {
  Path place = place_in_quarantine(files, root, label);
  move_folder(files, folder, place);
  explain_quarantine(files, root, place, label, reason);
}

Path place_in_quarantine(FileSystem& files, const Path& root, const std::string& label) {
  Path room = root / kQuarantineName;
  make_folders(files, room);
  return room / quarantined_name(label);
}

void explain_quarantine(FileSystem& files, const Path& root, const Path& place, const std::string& label,
                        const std::string& reason) {
  log(Severity::warning, "moved {} to \"{}\": {}", label, place.string(), reason);
  note(files, root, {.fate = Fate::quarantined, .step = step_of_folder(label), .reason = reason});
  try {
    create_text(files, place / kReasonName, reason + "\n");
    sync_folder(files, place.parent_path());
    sync_folder(files, root);
  } catch (const StorageError& error) {
    log(Severity::warning, "the reason was not recorded: {}", error.what());
  }
}

bool discard(FileSystem& files, const Path& root, const Path& folder, const std::function<bool()>& stays) {
  Path trash = root / trash_name(folder.filename().native());
  if (files.rename(folder.c_str(), trash.c_str(), 0) != 0) {
    if (errno == ENOENT) return true;
    throw FileError("move away", folder, errno);
  }
  if (stays && stays()) {
    move_folder(files, trash, folder);
    sync_folder(files, root);
    return true;
  }
  sync_folder(files, root);  // else a power loss could bring back the old name with half of the files gone
  return remove_tree(files, trash);
}

namespace {
std::optional<Step> audited_by(const State& state) {
  const auto found = state.find(kAuditedState);
  if (found == state.end()) return std::nullopt;
  const char *begin = found->second.data(), *end = begin + found->second.size();
  std::int64_t step = 0;
  const auto [last, error] = std::from_chars(begin, end, step);
  return error == std::errc() && last == end && step >= 0 ? std::optional(Step(step)) : std::nullopt;
}

/// Reads the newest checkpoint with a readable manifest. An audit after that save makes the newest checkpoint the
/// audited one, which stays anyhow.
std::optional<Step> last_audited(FileSystem& files, const Path& root) {
  if (!is_there(root)) return std::nullopt;
  const auto folders = step_folders(root);
  for (auto newest = folders.rbegin(); newest != folders.rend(); ++newest) try {
      return audited_by(load_manifest(files, newest->second).state);
    } catch (const StorageError& error) {
      pass_on_shortage(error);
      log(Severity::debug, "{}", error.what());
    }
  return std::nullopt;
}
}  // namespace

Rule last_rule(FileSystem& files, const Path& root) {
  const auto audited = last_audited(files, root);
  const Owner owner = owner_of(files, root).value_or(Owner{});
  if (owner.keep >= 2 && owner.keep_every >= 0) return {owner.keep, owner.keep_every, audited};
  Rule rule{.audited = audited};  // the rule of a run of an older distdl, whose OWNER lacks it
  for (const Event& event : read_history(files, root))
    if (event.fate == Fate::taken && event.keep >= 2 && event.keep_every >= 0)
      rule = {event.keep, event.keep_every, audited};
  return rule;
}

std::vector<RetentionDecision> decide_retention(FileSystem& files, const Path& root, const Rule& rule,
                                                std::optional<Step> just_saved,
                                                const std::function<bool(Step, const Path&)>& is_good) {
  auto folders = step_folders(root);
  auto tags = read_tags(files, root);
  auto first_of = milestones(folders, rule.keep_every);
  bool has_audited = !rule.audited;
  std::vector<RetentionDecision> decisions;
  std::int64_t good = 0;
  for (auto newest = folders.rbegin(); newest != folders.rend(); ++newest) {
    const auto& [step, folder] = *newest;
    RetentionDecision decision{step, folder, true, ""};
    auto names = names_of(tags, step);
    const bool may_be_audited = !has_audited && step <= *rule.audited;
    const bool counts = (good < rule.keep || may_be_audited) && is_good(step, folder);
    const bool is_audited = may_be_audited && counts;
    has_audited = has_audited || is_audited;
    if (good < rule.keep) {
      good += counts;
      decision.why =
          counts ? fmt::format("one of the newest {} that are verified", rule.keep)
                 : fmt::format("damaged; it does not count, but fewer than {} newer ones are verified", rule.keep);
    } else if (!names.empty()) {
      decision.why = fmt::format("tagged {}", fmt::join(names, ", "));
    } else if (is_audited) {
      decision.why = "the newest one that is audited";
    } else if (step == just_saved) {
      decision.why = "saved last";
    } else if (rule.keep_every > 0 && step.value >= rule.keep_every &&
               first_of.at(step.value / rule.keep_every) == step) {
      decision.why = fmt::format("the first of its {} steps", rule.keep_every);
    } else {
      decision.stays = false;
      decision.why = fmt::format("{} newer ones are verified", rule.keep);
    }
    decisions.push_back(std::move(decision));
  }
  return decisions;
}

bool collect(FileSystem& files, const Path& root, const RetentionDecision& decision) {
  auto got_a_tag = [&] {  // see add_tag
    try {
      return !names_of(read_tags(files, root), decision.step).empty();
    } catch (const StorageError&) {
      return true;  // who knows
    }
  };
  return discard(files, root, decision.folder, [&] {
    bool stays = got_a_tag();
    if (!stays) note(files, root, {.fate = Fate::collected, .step = decision.step, .reason = decision.why});
    return stays;
  });
}

void clear_leftovers(FileSystem& files, const Path& root) {
  warn_of_strangers(root);
  for (const Path& stage : entries_of(root, Kind::stage))
    note(files, root,
         {.fate = Fate::abandoned,
          .step = parse_entry_name(stage.filename().native()).step,
          .reason = "another run took the folder before this save was finished"});
  for (const Path& stage : entries_of(root, Kind::stage)) discard(files, root, stage);
  for (const Path& trash : entries_of(root, Kind::trash))
    if (!bring_back(files, root, trash)) remove_tree(files, trash);
  // Half-written files of a run that is taking the folder right now must stay, so only old ones go.
  for (const Path& half : entries_of(root, Kind::half))
    if (struct stat status{};
        ::lstat(half.c_str(), &status) == 0 && whole_seconds_since_1970() - status.st_mtime > kHalfIsDead)
      files.unlink(half.c_str());
  shorten_history(files, root);
}

}  // namespace distdl::checkpoint
