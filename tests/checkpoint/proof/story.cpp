// SPDX-License-Identifier: Apache-2.0
#include "tests/checkpoint/proof/story.hpp"

#include <fstream>
#include <sstream>

#include <distdl/checkpoint/commit/ownership.hpp>
#include <distdl/checkpoint/format/layout.hpp>
#include <distdl/checkpoint/snapshot_buffer.hpp>
#include <distdl/checkpoint/snapshot_memory.hpp>

namespace distdl::checkpoint::proof {
namespace {
namespace fs = std::filesystem;

const Options kOptions{.keep = 2};
constexpr std::uint64_t kLarge = 1000;  // seeds from here on

void demand(bool holds, const std::string& problem) {
  if (!holds) throw std::runtime_error(problem);
}

void two_steps(const fs::path& root) {
  for (std::uint64_t step : {1, 2})
    demand(all_empty(save_as(root, 1, Step(static_cast<std::int64_t>(step)), make_sample(step), false, kOptions)),
           "the folder before the story could not be made");
}

void two_steps_and_damage(const fs::path& root) {
  two_steps(root);
  demand(all_empty(save_as(root, 1, Step(3), make_sample(3), false, {.keep = 3})), "step 3 could not be made");
  fs::resize_file(root / step_folder_name(Step(3)) / data_file_name(0), 100);
}

std::string text_of(const fs::path& file) {
  std::ostringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  return text.str();
}
}  // namespace

Sample sample_of(const Version& version) {
  return make_sample(version.seed, version.seed < kLarge ? 40 : 16'000);
}

Run::Run(fs::path root, int world, FileSystem& files, Marker mark)
    : root_(std::move(root)), world_(world), files_(files), mark_(std::move(mark)) {
  make_stores();
}

void Run::make_stores() {
  for (int rank = 0; rank < world_; ++rank) stores_.push_back(std::make_unique<Store>(root_, kOptions, files_));
}

bool Run::on_all_ranks(const std::function<void(Store&, Group&)>& work) {
  errors_ =
      ThreadGroups(world_).run([&](Group& group) { work(*stores_[static_cast<std::size_t>(group.rank())], group); });
  return all_empty(errors_);
}

bool Run::take(const std::string& nonce) {
  mark_("take " + nonce);
  bool done = on_all_ranks([&](Store& store, Group& group) { store.take(group, owner_called(nonce)); });
  if (done) mark_("taken " + nonce);
  taken_ = done;
  return done;
}

bool Run::save(Version version) {
  if (!taken_) return false;
  std::string name = fmt::format("{} {}", version.step, version.seed);
  mark_("save " + name);
  Sample sample = sample_of(version);
  bool done = on_all_ranks([&](Store& store, Group& group) {
    Share share = share_of(sample, group.rank(), world_);
    if (version.seed < kLarge) {
      store.save(group, Step(version.step), share.slices, sample_state());
      return;
    }
    SnapshotMemory buffer = SnapshotMemory::create_private(buffer_bytes(share.slices, sample_state()));
    fill_buffer(buffer.writable(), {"story", group.rank(), world_, Step(version.step), 1}, share.slices,
                sample_state());
    Snapshot snapshot = open_snapshot(buffer.bytes());
    store.save(group, Step(version.step), snapshot.slices, snapshot.state);
  });
  if (done) mark_("saved " + name);
  return done;
}

void Run::rest() {
  stores_.clear();
  make_stores();
  taken_ = false;
}

void Run::look() {
  if (!taken_) return;
  on_all_ranks([](Store& store, Group& group) { store.newest_valid(group); });
}

void tell(const Story& story, const fs::path& root, FileSystem& files, const Marker& mark) {
  Run run(root, story.world, files, mark);
  story.tell(run);
}

Story new_step(int world) {
  return {fmt::format("a new step, {} ranks", world), world, two_steps, [](Run& run) {
            run.take("child");
            run.save({3, 33});
          }};
}

Story same_step_again(int world) {
  return {fmt::format("the same step with other contents, {} ranks", world), world, two_steps, [](Run& run) {
            run.take("child");
            run.save({2, 33});
          }};
}

Story large_step() {
  return {"a large step from a buffer", 1, two_steps, [](Run& run) {
            run.take("child");
            run.save({3, 1033});
          }};
}

Story several_steps(int world) {
  return {fmt::format("several steps, {} ranks", world), world, two_steps, [](Run& run) {
            run.take("child");
            for (std::uint64_t step : {3, 4, 5}) run.save({static_cast<std::int64_t>(step), 11 * step});
            run.save({5, 55});
          }};
}

Story damaged_newest() {
  auto tell = [](Run& run) {
    run.take("child");
    run.look();
    run.save({4, 44});
    run.save({5, 55});
  };
  return {"the newest is damaged", 1, two_steps_and_damage, tell, {.damaged = {3}}};
}

Story damaged_and_not_seen() {
  auto tell = [](Run& run) {
    run.take("child");
    run.save({4, 44});
    run.rest();
    run.take("child");
    run.look();
    run.save({5, 55});
  };
  return {"one is damaged and nobody looked", 1, two_steps_and_damage, tell, {.damaged = {3}}};
}

Story new_step_on_old_kernel() {
  Story story = new_step(1);
  story.name += ", old kernel";
  story.old_kernel = true;
  return story;
}

Story same_step_on_old_kernel() {
  Story story = same_step_again(1);
  story.name += ", old kernel";
  story.start = {.kept = {1, 1}, .begun = {{2, 2}}, .whole = 1, .latest_may_dangle = true};
  story.old_kernel = true;
  return story;
}

Story failed_then_saved_again() {
  auto one_step = [](const fs::path& root) {
    demand(all_empty(save_as(root, 1, Step(2), make_sample(2), false, kOptions)), "no step 2");
  };
  auto tell = [](Run& run) {
    run.take("child");
    run.save({3, 33});
    run.save({3, 33});
  };
  return {"saved again after a failure", 1, one_step, tell, {.whole = 1}};
}

std::vector<Story> all_stories() {
  return {new_step(1),
          new_step(2),
          new_step(4),
          same_step_again(1),
          same_step_again(2),
          large_step(),
          several_steps(1),
          several_steps(2),
          damaged_newest(),
          damaged_and_not_seen(),
          new_step_on_old_kernel(),
          same_step_on_old_kernel()};
}

void note(Promise& promise, const std::string& mark) {
  std::istringstream words(mark);
  std::string what, nonce;
  Version version;
  words >> what;
  if (what == "take" || what == "taken") {
    words >> nonce;
    if (what == "taken") promise.owners.clear();  // and nobody else from now on
    promise.owners.push_back(nonce);
  } else {
    words >> version.step >> version.seed;
    if (what == "save") promise.begun.push_back(version);
    if (what == "saved") {
      promise.kept = version;
      std::erase_if(promise.begun, [&](const Version& other) { return other.step <= version.step; });
      promise.latest_may_dangle = false;
    }
  }
}

namespace {
void judge_owner(const fs::path& root, const Promise& promise) {
  std::string nonce = owner_from(text_of(root / kOwnerName)).nonce;
  demand(std::count(promise.owners.begin(), promise.owners.end(), nonce) > 0, fmt::format("OWNER names \"{}\"", nonce));
}

void judge_folders(const fs::path& root, const Promise& promise) {
  std::size_t whole = 0;
  for (const auto& [step, folder] : step_folders(root)) {
    auto findings = verify(folder);
    whole += findings.empty();
    demand(findings.empty() || promise.damaged.contains(step.value), findings.empty() ? "" : findings[0].message);
  }
  demand(whole >= promise.whole, fmt::format("only {} whole checkpoints are left", whole));
}

/// LATEST is a hint, but never half a hint: it names a whole checkpoint.
void judge_latest(const fs::path& root, const Promise& promise) {
  if (!fs::exists(root / kLatestName)) return;
  std::string text = text_of(root / kLatestName);
  bool ends = text.ends_with('\n');
  if (ends) text.pop_back();
  auto step = step_of_folder(text);
  demand(ends && step, "LATEST says \"" + text + "\"");
  if (promise.damaged.contains(step->value) || promise.latest_may_dangle) return;
  demand(fs::exists(root / text / kManifestName), "LATEST names " + text + ", which is no checkpoint");
}

void judge_restart(const fs::path& root, const Promise& promise) {
  SingleProcessGroup alone;
  Store store(root, kOptions);
  store.take(alone, owner_called("successor"));
  auto found = store.newest_valid(alone);
  demand(found.has_value(), "no checkpoint is found");
  std::vector<Version> allowed = promise.begun;
  allowed.push_back(promise.kept);
  std::string problem = fmt::format("step {} is found", found->step);
  for (const Version& version : allowed) {
    if (version.step != found->step.value || version.step < promise.kept.step) continue;
    problem = compare(store, *found, sample_of(version));
    if (problem.empty()) break;
  }
  demand(problem.empty(), problem);
  for (const char* prefix : {kStagePrefix, kTrashPrefix})
    demand(entries_with_prefix(root, prefix).empty(), fmt::format("{}* is left behind", prefix));
  store.save(alone, Step(9), share_of(make_sample(99), 0, 1).slices, sample_state());
  auto next = store.newest_valid(alone);
  demand(next && next->step == Step(9), "the next save is not found");
}
}  // namespace

std::string judge(const fs::path& root, const Promise& promise) try {
  judge_owner(root, promise);
  judge_folders(root, promise);
  judge_latest(root, promise);
  judge_restart(root, promise);
  return "";
} catch (const std::exception& error) {
  return error.what();
}

}  // namespace distdl::checkpoint::proof
