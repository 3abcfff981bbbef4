// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <exception>
#include <thread>
#include <utility>

#include <distdl/base/clock.hpp>
#include <distdl/base/log.hpp>
#include <distdl/base/random.hpp>
#include <distdl/base/shortage.hpp>
#include <distdl/checkpoint/commit/agreement.hpp>
#include <distdl/checkpoint/commit/collector.hpp>
#include <distdl/checkpoint/commit/commit.hpp>
#include <distdl/checkpoint/commit/history.hpp>
#include <distdl/checkpoint/commit/ownership.hpp>
#include <distdl/checkpoint/commit/retention.hpp>
#include <distdl/checkpoint/commit/save_step.hpp>
#include <distdl/checkpoint/format/block_reader.hpp>
#include <distdl/checkpoint/format/compression.hpp>
#include <distdl/checkpoint/format/hyperslabs.hpp>
#include <distdl/checkpoint/format/layout.hpp>
#include <distdl/checkpoint/format/tensor_reader.hpp>
#include <distdl/checkpoint/format/verify.hpp>
#include <distdl/checkpoint/group.hpp>
#include <distdl/checkpoint/inspect.hpp>
#include <distdl/checkpoint/multilevel/level.hpp>
#include <distdl/checkpoint/owner.hpp>
#include <distdl/checkpoint/protection.hpp>
#include <distdl/checkpoint/slice.hpp>
#include <distdl/checkpoint/store.hpp>
#include <distdl/checkpoint/summary.hpp>

namespace distdl::checkpoint {
namespace {
constexpr auto kSettlePatience = std::chrono::seconds(30);
constexpr auto kOwnerVisible = std::chrono::seconds(3);  // a shared file system may show a new file late

Path clean(const Path& root) {
  Path path = std::filesystem::absolute(root).lexically_normal();
  return path.has_filename() ? path : path.parent_path();
}
}  // namespace

bool has_levels(const Options& options) {
  return options.memory_every > 0 || !used_levels(options).is_empty();
}

/// The keys of the intervals, for messages.
static std::string names_of_intervals() {
  std::string names = "checkpoint.memory_every";
  for (const Level* level : levels()) {
    names += level == levels().back() ? " and " : ", ";
    names += level->key.substr(level->key.find('.') + 1);
  }
  return names;
}

static void check_levels(const Options& options) {
  const auto check_interval = [](std::string_view key, std::int64_t every) {
    require(every >= 0, "{} is {}, but must not be negative", key, every);
  };
  check_interval("checkpoint.memory_every", options.memory_every);
  for (const Level* level : levels()) check_interval(level->key, options.*level->every);
  require(!has_levels(options) || options.mode != SaveMode::sync,
          "checkpoint.mode = \"sync\" does not take snapshots, which could be kept in memory or on local disks; use "
          "\"async\" or "
          "\"lazy\", or leave out {}",
          names_of_intervals());
  for (const Level* level : levels())
    if (level->check != nullptr) level->check(options);
}

void check(const Options& options) {
  constexpr double kMost = 1e6;  // seconds
  require(options.every.automatic || options.every.steps >= 0,
          "checkpoint.every is {}, but must be \"auto\" or not negative", options.every.steps);
  require(options.mtbf_hours >= 0 && options.mtbf_hours < 1e9,
          "checkpoint.mtbf_hours is {}, but must be between 0 and 1e9", options.mtbf_hours);
  require(options.timeout_seconds > 0 && options.timeout_seconds <= kMost,
          "checkpoint.timeout_seconds is {}, but must be above 0 and at most 1e6", options.timeout_seconds);
  require(options.keep >= 2, "checkpoint.keep is {}, but must be at least 2", options.keep);
  require(options.keep_every >= 0, "checkpoint.keep_every is {}, but must not be negative", options.keep_every);
  require(codec_called(options.compression).has_value(), R"(checkpoint.compression is "{}", but must be {})",
          options.compression, codec_names());
  for (auto [key, threads] : {std::pair("checkpoint.copy_threads", options.copy_threads),
                              std::pair("checkpoint.write_threads", options.write_threads)})
    require(threads >= 1 && threads <= 256, "{} is {}, but must be between 1 and 256", key, threads);
  check_levels(options);
}

Store::Store(const std::filesystem::path& root, Options options, FileSystem& files)
    : named_root_(clean(root)), root_(resolved(named_root_)), options_(std::move(options)), files_(&files) {
  check(options_);
  collector_ = std::make_shared<Collector>(files, root_, Rule{options_.keep, options_.keep_every});
}

Store::Store(Store&&) noexcept = default;
Store::Store(const Store&) = default;
Store::~Store() = default;

Store::Store(const std::filesystem::path& root, Options options)
    : Store(root, std::move(options), real_file_system()) {}

void Store::take(Group& group, const Owner& owner, SnapshotUse snapshots) {
  std::string what = fmt::format("take the checkpoint folder \"{}\"", root_.string());
  owner_ = owner_from(leader_decides(group, what, [&] {
    Owner mine = owner;
    if (mine.nonce.empty()) mine.nonce = random_hex(16);
    make_folders(*files_, root_);
    const Owner before = owner_of(*files_, root_).value_or(Owner{});
    require_no_newer_generation(before, mine, root_);
    if (mine.lineage.empty()) mine.lineage = before.lineage;
    if (mine.lineage.empty()) mine.lineage = random_hex(8);
    mine.start = before.start + 1;
    mine.keep = options_.keep;
    mine.keep_every = options_.keep_every;
    mine.snapshots_since = snapshots == SnapshotUse::none ? mine.start : before.snapshots_since;
    write_owner(*files_, root_, mine);  // first: whoever commits from now on is refused
    clear_leftovers(*files_, root_);
    note(*files_, root_,
         {.reason = fmt::format("job {}, restart {}, generation {}", mine.job, mine.restart, mine.generation),
          .keep = options_.keep,
          .keep_every = options_.keep_every});
    return to_text(mine);
  }));
  agree(group, what, [&] {
    auto deadline = Deadline::after(group.rank() == 0 ? Clock::duration::zero() : kOwnerVisible);
    for (;;) try {
        check_owner(*files_, root_, owner_);
        return std::string();
      } catch (const FileError&) {
        throw;  // waiting does not help
      } catch (const StorageError& error) {
        // Not what rank 0 has just written itself, or newer than that: another run has begun meanwhile.
        if (group.rank() == 0 || owner_of(*files_, root_).value_or(Owner{}).start > owner_.start) throw;
        require<StorageError>(!deadline.expired(), "{}; the folder must be the same one on all nodes", error.what());
        std::this_thread::sleep_for(Milliseconds(50));
      }
  });
  taken_ = true;
}

std::string Store::run_name() const {
  return checkpoint::run_name(owner_.lineage, named_root_);
}

void Store::check_room(Group& group, std::uint64_t bytes) const {
  leader_decides(group, "check the free space for checkpoints", [&] {
    check_room_of_run(*files_, root_, bytes, options_.compression != "none", {options_.keep, options_.keep_every});
    return std::string();
  });
}

SaveReport Store::save(Group& group, Step step, std::span<const Slice> slices, const State& state) {
  if (!taken_) throw Error(ExitCode::internal, "Store::save before Store::take");
  Stopwatch watch;
  SaveReport report{step, 0, 0};
  try {
    report.bytes = save_with_room({*files_, root_, options_, owner_, group, *collector_}, step, slices, state);
  } catch (const StorageError& error) {
    if (group.rank() == 0) note(*files_, root_, {.fate = Fate::failed, .step = step, .reason = error.what()});
    if (is_shortage(error)) throw StorageError(error.what());  // a later save may find room
    throw;
  }
  if (group.rank() == 0) {  // announced to all, so that older ones may go
    note(*files_, root_, {.fate = Fate::saved, .step = step});
    write_latest(*files_, root_, step);
    collector_->saved(step);
  }
  report.seconds = watch.seconds();
  return report;
}

void Store::set_aside(Step step, const std::filesystem::path& folder, const std::string& reason) const try {
  log(Severity::warning, "checkpoint step {} cannot be used: {}", step, reason);
  if (!taken_) return;
  check_owner(*files_, root_, owner_);
  quarantine(*files_, root_, folder, step_folder_name(step), reason);
} catch (const StorageError& error) {
  log(Severity::warning, "it cannot be moved to quarantine: {}", error.what());
}

std::optional<Summary> Store::newest(Group& group, std::optional<Step> below) {
  std::string text = leader_decides(group, fmt::format("look for a checkpoint in \"{}\"", root_.string()), [&] {
    auto folders = step_folders(root_);
    if (below) folders.erase(folders.lower_bound(*below), folders.end());
    if (folders.empty()) return std::string();
    const auto& [step, folder] = *folders.rbegin();
    try {
      return to_text(load_manifest(*files_, folder));
    } catch (const StorageError& error) {  // newest_valid() verifies it
      pass_on_shortage(error);
      Manifest nothing;
      nothing.step = step;
      return to_text(nothing);
    }
  });
  if (text.empty()) return std::nullopt;
  Manifest manifest = parse_manifest(text, "the manifest that rank 0 sent");
  return summary_of(manifest, root_ / step_folder_name(manifest.step));
}

std::vector<Step> Store::set_aside_after(Group& group, std::optional<Step> last, const std::string& reason) {
  std::vector<Step> moved;
  leader_decides(group, fmt::format("set checkpoints in \"{}\" aside", root_.string()), [&] {
    if (!collector_->settle(kSettlePatience)) {
      log(Severity::warning, "old checkpoints in \"{}\" are still being deleted: the others remain", root_.string());
      collector_->stop();
    }
    check_owner(*files_, root_, owner_);
    owner_.snapshots_since = owner_.start + 1;
    write_owner(*files_, root_, owner_);
    const auto folders = step_folders(root_);
    std::exception_ptr first_error;  // the others are moved all the same, the newest first: a start takes that one
    for (auto one = folders.rbegin(); one != folders.rend() && (!last || one->first > *last); ++one) try {
        quarantine(*files_, root_, one->second, step_folder_name(one->first), reason);
        moved.insert(moved.begin(), one->first);
      } catch (const StorageError&) {
        if (!first_error) first_error = std::current_exception();
      }
    if (first_error) std::rethrow_exception(first_error);
    return std::string();
  });
  return moved;
}

void Store::keep_newest_until(Step step) {
  collector_->keep_newest_until(step);
}

/// The first damage in this rank's share of a checkpoint's files; empty: none.
static std::string damage_in(FileSystem& files, const Manifest& manifest, const Path& folder, Group& group,
                             Depth depth) {
  for (auto index = static_cast<std::size_t>(group.rank()); index < manifest.files.size();
       index += static_cast<std::size_t>(group.size()))
    if (const auto findings = verify_listed_file(files, folder, manifest, index, depth); !findings.empty())
      return findings.front().message;
  return "";
}

constexpr char kDamaged = 'd', kUnfit = 'u';  // how a rank's assessment of a checkpoint begins

/// Empty if all is well. What does not fit may be damage all the same: then the share is verified as a whole.
static std::string assessment_of(FileSystem& files, const Manifest& manifest, const Path& folder, Group& group,
                                 const Store::Reading& reading) try {
  std::string damage = damage_in(files, manifest, folder, group, reading ? Depth::frame : Depth::bytes);
  if (damage.empty() && reading)
    for (const auto& finding : findings_of([&] { reading(summary_of(manifest, folder)); })) damage = finding.message;
  return damage.empty() ? "" : kDamaged + damage;
} catch (const StorageError& error) {
  if (error.exit_code() != ExitCode::incompatible || !reading) throw;
  const std::string damage = damage_in(files, manifest, folder, group, Depth::bytes);
  return damage.empty() ? kUnfit + std::string(error.what()) : kDamaged + damage;
}

std::optional<Summary> Store::newest_valid(Group& group, std::optional<Step> below, const Reading& reading) {
  const std::string what = fmt::format("look for a checkpoint in \"{}\"", root_.string());
  for (;;) {  // lower and lower: what was newer is of no use
    const std::string text = leader_decides(group, what, [&] { return next_candidate(below); });
    if (text.empty()) return std::nullopt;
    const auto end_of_name = text.find('\n');
    const Path folder = root_ / text.substr(0, end_of_name);
    const Manifest manifest = parse_manifest(text.substr(end_of_name + 1), "the manifest that rank 0 sent");
    const auto assessments = agree(group, fmt::format("{} \"{}\"", reading ? "read" : "verify", folder.string()),
                                   [&] { return assessment_of(*files_, manifest, folder, group, reading); });
    const auto first = [&](char kind) {
      return std::find_if(assessments.begin(), assessments.end(),
                          [&](const auto& one) { return !one.empty() && one.front() == kind; });
    };
    if (const auto damage = first(kDamaged); damage != assessments.end()) {
      below = step_of_folder(folder.filename().string());
      if (group.rank() == 0) set_aside(*below, folder, damage->substr(1));
      continue;
    }
    if (const auto unfit = first(kUnfit); unfit != assessments.end())
      throw StorageError(unfit->substr(1), ExitCode::incompatible);
    if (group.rank() == 0) collector_->verified(manifest.step);
    return summary_of(manifest, folder);
  }
}

std::string Store::next_candidate(std::optional<Step> below) const {
  if (!is_there(root_)) return "";
  const auto folders = step_folders(root_);
  for (auto newest = folders.rbegin(); newest != folders.rend(); ++newest) {
    const auto& [step, folder] = *newest;
    if (below && !(step < *below)) continue;
    const Verified verified = verify_manifest(*files_, folder);
    if (verified.findings.empty()) return folder.filename().string() + "\n" + to_text(verified.manifest);
    set_aside(step, folder, verified.findings.front().message);
  }
  return "";
}

void Store::read(const Summary& checkpoint, std::span<const Target> targets, PageCache cache) const {
  TensorReader reader(*files_, checkpoint.folder);
  auto refuse = [&](const Target& target, const std::string& problem) {
    return StorageError(fmt::format("checkpoint \"{}\" does not fit this model: tensor \"{}\" {}",
                                    checkpoint.folder.string(), target.name, problem),
                        ExitCode::incompatible);
  };
  std::vector<WantedBox> wanted;
  for (const Target& target : targets) {
    const StoredTensor* stored = reader.find(target.name);
    if (!stored) throw refuse(target, "is not in it");
    if (stored->entry.dtype != target.dtype || stored->entry.shape != target.shape)
      throw refuse(target, fmt::format("is {} {} in the model, but was saved as {} {}", tensor::code_of(target.dtype),
                                       tensor::to_string(target.shape), tensor::code_of(stored->entry.dtype),
                                       tensor::to_string(stored->entry.shape)));
    if (!lies_inside(target.box, target.shape)) throw refuse(target, "is requested with a box outside its shape");
    wanted.push_back({stored, target.box, target.bytes});
  }
  read_boxes(*files_, checkpoint.folder, reader.manifest(), wanted, static_cast<std::size_t>(options_.write_threads),
             cache);
}

}  // namespace distdl::checkpoint
