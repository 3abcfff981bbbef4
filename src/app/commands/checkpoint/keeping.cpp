// SPDX-License-Identifier: Apache-2.0
// distdl checkpoint gc | tag
#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include <nlohmann/json.hpp>

#include <distdl/app/commands/checkpoint/actions.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/printable.hpp>
#include <distdl/checkpoint/commit/retention.hpp>
#include <distdl/checkpoint/commit/tags.hpp>
#include <distdl/checkpoint/format/layout.hpp>
#include <distdl/checkpoint/inspect.hpp>

namespace distdl::app {
namespace {
namespace fs = std::filesystem;
using checkpoint::RetentionDecision;
using checkpoint::Rule;
using CheckpointJson = nlohmann::json;

constexpr auto kStageIsDead = std::chrono::hours(24);

struct GcOptions {
  std::string folder;
  std::optional<std::int64_t> keep, keep_every;
  bool quarantine = false, dry_run = false, as_json = false;
};

/// Something in a root that is no checkpoint.
struct Leftover {
  fs::path path;
  bool stays;
  std::string why;
};

Rule rule_for(const fs::path& root, const GcOptions& options) {
  Rule rule = checkpoint::last_rule(real_file_system(), root);
  if (options.keep) rule.keep = *options.keep;
  if (options.keep_every) rule.keep_every = *options.keep_every;
  return rule;
}

bool untouched_for_long(const fs::path& folder) {
  std::error_code error;
  auto last = fs::last_write_time(folder, error);
  for (const auto& entry : fs::directory_iterator(folder, error))
    last = std::max(last, fs::last_write_time(entry.path(), error));
  return !error && fs::file_time_type::clock::now() - last > kStageIsDead;
}

std::vector<Leftover> leftovers_in(const fs::path& root, bool quarantine) {
  std::vector<Leftover> found;
  using Kind = checkpoint::EntryName::Kind;
  for (const auto& path : checkpoint::entries_of(root, Kind::trash))
    found.push_back({path, false, "a run deletes it, or did not finish deleting it"});
  for (const auto& path : checkpoint::entries_of(root, Kind::stage)) {
    bool dead = untouched_for_long(path);
    found.push_back({path, !dead, dead ? "no run has written to it for a day" : "a run may be writing it"});
  }
  std::error_code ignored;
  if (fs::exists(root / checkpoint::kQuarantineName, ignored))
    for (const auto& name : names_in(root / checkpoint::kQuarantineName))
      found.push_back({root / checkpoint::kQuarantineName / name, !quarantine,
                       quarantine ? "asked for" : "in quarantine; --quarantine deletes it"});
  return found;
}

std::uint64_t bytes_in(const fs::path& folder) {
  std::uint64_t sum = 0;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored))
    if (entry.is_regular_file(ignored)) sum += entry.file_size(ignored);
  return sum;
}

/// Deletes what goes; false if something is left.
bool sweep(const fs::path& root, const std::vector<RetentionDecision>& decisions,
           const std::vector<Leftover>& leftovers) {
  auto& files = real_file_system();
  bool gone = true;
  for (auto oldest = decisions.rbegin(); oldest != decisions.rend(); ++oldest)
    if (!oldest->stays) gone = checkpoint::collect(files, root, *oldest) && gone;
  for (const Leftover& leftover : leftovers)
    if (!leftover.stays) gone = checkpoint::discard(files, root, leftover.path) && gone;
  return gone;
}

/// Once more, to learn the cause. Throws StorageError unless nothing is left.
void finish_deleting(const fs::path& root) {
  for (const auto& trash : checkpoint::entries_of(root, checkpoint::EntryName::Kind::trash)) {
    errno = 0;
    const bool gone = remove_tree(real_file_system(), trash);
    require<StorageError>(gone,
                          "cannot delete \"{}\": {}; it is no longer a checkpoint. Run gc again when its files can be "
                          "deleted and no process has them open",
                          trash.string(), errno_text(errno));
  }
}

void print_report(const Rule& rule, const std::vector<RetentionDecision>& decisions,
                  const std::vector<Leftover>& leftovers, const std::vector<std::uint64_t>& sizes, bool dry_run) {
  const char* going = dry_run ? "would go" : "deleted";
  fmt::print("rule: the newest {} verified stay{}{}\n", rule.keep,
             rule.keep_every > 0 ? fmt::format(", and the first of each {} steps", rule.keep_every) : "",
             rule.audited ? fmt::format(", and the newest one up to the audited step {}", *rule.audited) : "");
  for (const RetentionDecision& decision : decisions)
    fmt::print("{:>12}  {:<8}  {}\n", decision.step, decision.stays ? "stays" : going, printable(decision.why));
  for (const Leftover& leftover : leftovers)
    fmt::print("{}  {}  {}\n", printable(leftover.path.string()), leftover.stays ? "stays" : going,
               printable(leftover.why));
  std::uint64_t freed = 0;
  for (std::size_t i = 0; i < decisions.size(); ++i)
    if (!decisions[i].stays) freed += sizes[i];
  if (freed > 0) fmt::print("{} of checkpoints {}\n", mebibytes(freed), going);
}

CheckpointJson report_of(const Rule& rule, const std::vector<RetentionDecision>& decisions,
                         const std::vector<Leftover>& leftovers, const std::vector<std::uint64_t>& sizes,
                         bool dry_run) {
  CheckpointJson steps = CheckpointJson::array(), others = CheckpointJson::array();
  for (std::size_t i = 0; i < decisions.size(); ++i)
    steps.push_back({{"step", decisions[i].step.value},
                     {"stays", decisions[i].stays},
                     {"why", decisions[i].why},
                     {"bytes", sizes[i]}});
  for (const Leftover& leftover : leftovers)
    others.push_back({{"path", leftover.path.string()}, {"stays", leftover.stays}, {"why", leftover.why}});
  CheckpointJson report{{"keep", rule.keep},
                        {"keep_every", rule.keep_every},
                        {"dry_run", dry_run},
                        {"checkpoints", std::move(steps)},
                        {"leftovers", std::move(others)}};
  if (rule.audited) report["audited"] = rule.audited->value;
  return report;
}

void gc(const GcOptions& options) {
  fs::path root = resolved(root_of(options.folder));
  Rule rule = rule_for(root, options);
  auto decisions =
      checkpoint::decide_retention(real_file_system(), root, rule, std::nullopt,
                                   [](Step, const fs::path& folder) { return checkpoint::verify(folder).empty(); });
  // A checkpoint that a run beside this has collected meanwhile looked damaged.
  std::erase_if(decisions, [](const RetentionDecision& decision) { return is_gone(decision.folder); });
  auto leftovers = leftovers_in(root, options.quarantine);
  std::vector<std::uint64_t> sizes;
  sizes.reserve(decisions.size());
  for (const RetentionDecision& decision : decisions) sizes.push_back(bytes_in(decision.folder));
  bool gone = options.dry_run || sweep(root, decisions, leftovers);
  if (options.as_json)
    print(report_of(rule, decisions, leftovers, sizes, options.dry_run));
  else
    print_report(rule, decisions, leftovers, sizes, options.dry_run);
  if (!gone) finish_deleting(root);
}

void add_gc(Command parent) {
  auto options = std::make_shared<GcOptions>();
  Command command =
      parent.add_subcommand("gc",
                            "Delete old checkpoints by the retention rule of the last run, and incomplete files "
                            "of dead runs; safe while a run is active");
  command.add_option("DIR", options->folder, kRootHelp).required();
  command.add_flag("-n,--dry-run", options->dry_run, "Only list what would be deleted, and why the others stay");
  add_number(command, "--keep", options->keep, 2,
             "Number of newest verified checkpoints to keep, at least 2; default: the run's rule");
  add_number(command, "--keep-every", options->keep_every, 0,
             "Also keep the first checkpoint of every N steps; 0: none; default: the run's rule");
  command.add_flag("--quarantine", options->quarantine, "Also delete what is in quarantine");
  command.add_flag("--json", options->as_json, "Print one JSON document");
  command.examples({{"distdl checkpoint gc run --dry-run", "See what would be deleted, and why the others stay"},
                    {"distdl checkpoint gc run --keep 2", "Keep the 2 newest ones only"}});
  command.callback([options] { gc(*options); });
}

void add_tag(Command parent) {
  struct Arguments {
    std::optional<std::int64_t> step;
    std::string name, folder;
    bool remove = false, move = false, as_json = false;
  };
  auto arguments = std::make_shared<Arguments>();
  Command command = parent.add_subcommand("tag", "Give a checkpoint a name; checkpoints with a tag are never deleted");
  add_step(command, "STEP", arguments->step, "Step of the checkpoint").required();
  command.add_option("NAME", arguments->name, "Letters, digits, '.', '_', '-'; the first a letter").required();
  command.add_option("DIR", arguments->folder, kRootHelp).required();
  auto remove = command.add_flag("--remove", arguments->remove, "Remove the tag");
  command.add_flag("--move", arguments->move, "Move the tag from another step").excludes(remove);
  command.add_flag("--json", arguments->as_json, "Print one JSON document");
  command.examples({{"distdl checkpoint tag 20 best run", "Keep the checkpoint of step 20, and call it \"best\""},
                    {"distdl checkpoint tag 20 best run --remove", "Remove the tag"}});
  command.callback([arguments] {
    fs::path root = resolved(root_of(arguments->folder));
    auto& files = real_file_system();
    Step step(*arguments->step);
    if (arguments->remove)
      checkpoint::remove_tag(files, root, step, arguments->name);
    else
      checkpoint::add_tag(files, root, step, arguments->name, arguments->move);
    auto names = checkpoint::names_of(checkpoint::read_tags(files, root), step);
    if (arguments->as_json) return print({{"step", step.value}, {"tags", names}});
    fmt::print("step {}:", step);
    for (const auto& name : names) fmt::print(" {}", printable(name));
    fmt::print("{}\n", names.empty() ? " no tags" : "");
  });
}
}  // namespace

void add_checkpoint_keeping(Command parent) {
  add_gc(parent);
  add_tag(parent);
}

}  // namespace distdl::app
