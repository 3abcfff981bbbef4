// SPDX-License-Identifier: Apache-2.0
// Keeping snapshots in other places; how they come back is in levels_restore.cpp.
#include <utility>

#include <nlohmann/json.hpp>

#include <distdl/checkpoint/levels.hpp>
#include <distdl/checkpoint/multilevel/level.hpp>
#include <distdl/checkpoint/multilevel/node_snapshots.hpp>

namespace distdl::checkpoint {
namespace {
using nlohmann::json;

/// Collective. The places of all ranks.
std::unique_ptr<const Ranks> ranks_of(Group& group, FileSystem& files, Levels::Setup setup) {
  auto ranks = std::make_unique<Ranks>(Ranks{group, files, std::move(setup), {}, {}});
  const Place& own = ranks->setup.place;
  for (const std::string& text : group.all_gather(json{own.node, own.domain}.dump())) {
    const auto place = json::parse(text);
    ranks->nodes.push_back(place.at(0).get<std::string>());
    ranks->domains.push_back(place.at(1).get<std::string>());
    if (ranks->domains.back().empty()) ranks->domains.back() = ranks->nodes.back();
  }
  return ranks;
}

}  // namespace

Levels::Levels(Group& group, FileSystem& files, Setup setup)
    : group_(group), ranks_(ranks_of(group, files, std::move(setup))) {
  for (const Level* level : levels())
    if (auto copies = level->make(*ranks_)) copies_.push_back(std::move(copies));
  node_ = std::make_unique<NodeSnapshots>(*ranks_, copies_);
}

Levels::~Levels() = default;

std::vector<std::string> Levels::gaps() const {
  std::vector<std::string> gaps;
  const Protection used = used_levels(ranks_->setup.options);
  for (const auto& copies : copies_)
    if (used.has(copies->level()))
      if (auto gap = copies->gap()) gaps.push_back(*std::move(gap));
  return gaps;
}

Protection Levels::protect(std::span<const std::byte> buffer, const Protection& how) {
  const auto mine = moment_of(open_snapshot(buffer).label);
  const auto is_not_older = [mine](const SnapshotLabel& other) { return moment_of(other) >= mine; };
  std::vector<LevelCopies*> asked;
  for (const auto& copies : copies_)
    if (how.has(copies->level())) asked.push_back(copies.get());
  try {
    for (LevelCopies* copies : asked) copies->protect(buffer);
  } catch (...) {
    for (LevelCopies* copies : asked) copies->give_up();
    throw;
  }
  // All ranks have all of it: only now may older ones go.
  for (LevelCopies* copies : asked) copies->remove_older(is_not_older);
  if (!how.in_memory().is_empty() || used_levels(ranks_->setup.options).in_memory().is_empty()) {
    node_->remove_fetched();
    node_->remove_orphans(is_not_older);
  }
  Protection made;
  for (const LevelCopies* copies : asked)
    if (copies->covers_all()) made.add(copies->level());
  return made;
}

void Levels::keep_only(const std::optional<RestorePlan>& plan) {
  node_->close();  // a restore that failed still holds what is to go; others of the node may remove it
  group_.all_gather("");
  const auto is_wanted = [&](const SnapshotLabel& label) {
    return plan && label.start == plan->start && label.step == plan->step && label.world == plan->world;
  };
  node_->keep_only(is_wanted);
  for (const auto& copies : copies_)
    if (copies->level().in_memory) copies->keep_only(is_wanted);
  node_->remove_orphans(is_wanted);
  for (const auto& copies : copies_)
    if (!copies->level().in_memory) copies->keep_only(is_wanted);
  group_.all_gather("");
}

}  // namespace distdl::checkpoint
