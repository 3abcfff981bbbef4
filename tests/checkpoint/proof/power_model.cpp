// SPDX-License-Identifier: Apache-2.0
#include "tests/checkpoint/proof/power_model.hpp"

#include <algorithm>
#include <fstream>
#include <random>

namespace distdl::checkpoint::proof {
namespace {
using Kind = Operation::Kind;
using Fate = Change::Fate;

constexpr std::uint64_t kSector = 4096;    // a torn write ends at such a boundary
constexpr std::uint64_t kMostPieces = 24;  // of one write

bool is_data(const Change& change) {
  Kind kind = change.operation.kind;
  return kind == Kind::write || kind == Kind::extend || kind == Kind::truncate;
}

std::vector<Operation> pieces_of(const Operation& write) {
  std::uint64_t piece = std::max(kSector, (write.bytes.size() / kMostPieces + kSector) / kSector * kSector);
  std::vector<Operation> pieces;
  for (std::uint64_t from = 0; from < write.bytes.size();) {
    std::uint64_t until = ((write.offset + from) / piece + 1) * piece - write.offset;
    Operation part = write;
    part.offset = write.offset + from;
    part.bytes = write.bytes.substr(from, until - from);
    pieces.push_back(std::move(part));
    from = until;
  }
  return pieces;
}

bool touches(const Operation& operation, InodeId folder, const std::string& name) {
  bool second = operation.kind == Kind::rename || operation.kind == Kind::exchange;
  return (operation.folder == folder && operation.name == name) ||
         (second && operation.other_folder == folder && operation.other_name == name);
}
}  // namespace

PowerModel::PowerModel(const Recording& recording) : start_(recording.start), operations_(recording.operations.size()) {
  for (std::size_t at = 0; at < operations_; ++at) {
    const Operation& operation = recording.operations[at];
    if (operation.kind == Kind::sync)
      syncs_.emplace_back(at, operation.inode);
    else if (operation.kind == Kind::write)
      for (const Operation& piece : pieces_of(operation)) add(piece, at);
    else if (operation.kind != Kind::mark)
      add(operation, at);
  }
}

void PowerModel::add(const Operation& operation, std::size_t at) {
  Change change{operation, at, {}, {}};
  if (is_data(change)) {
    change.keepers = {operation.inode};
  } else {
    change.keepers = {operation.folder};
    bool second = operation.kind == Kind::rename || operation.kind == Kind::exchange;
    // A rename between folders happens as a whole, and is safe when both are.
    if (second && operation.other_folder != operation.folder) change.keepers.push_back(operation.other_folder);
    for (std::size_t i = 0; i < changes_.size(); ++i)
      if (!is_data(changes_[i]) &&
          (touches(changes_[i].operation, operation.folder, operation.name) ||
           (second && touches(changes_[i].operation, operation.other_folder, operation.other_name))))
        change.needs.push_back(i);
  }
  changes_.push_back(std::move(change));
}

std::size_t PowerModel::changes_before(std::size_t moment) const {
  auto after =
      std::find_if(changes_.begin(), changes_.end(), [&](const Change& change) { return change.at >= moment; });
  return static_cast<std::size_t>(after - changes_.begin());
}

/// Which changes are certain to be on the disk.
std::vector<bool> PowerModel::synced_at(std::size_t moment) const {
  std::vector<bool> synced(changes_before(moment));
  auto is_synced = [&](const Change& change, InodeId inode) {
    return std::any_of(syncs_.begin(), syncs_.end(), [&](const auto& sync) {
      return sync.second == inode && sync.first > change.at && sync.first < moment;
    });
  };
  for (std::size_t i = synced.size(); i-- > 0;) {
    const Change& change = changes_[i];
    if (!synced[i])
      synced[i] = std::all_of(change.keepers.begin(), change.keepers.end(),
                              [&](InodeId inode) { return is_synced(change, inode); });
    if (synced[i])
      for (std::size_t need : change.needs) synced[need] = true;
  }
  return synced;
}

/// Makes a choice possible: what was synced is there, and nothing is there without what it needs.
void PowerModel::complete(Loss& loss, const std::vector<bool>& synced) const {
  for (std::size_t i = 0; i < synced.size(); ++i) {
    if (synced[i]) loss.fates[i] = Fate::present;
    if (changes_[i].operation.kind != Kind::write && loss.fates[i] == Fate::garbage) loss.fates[i] = Fate::present;
    for (std::size_t need : changes_[i].needs)
      if (loss.fates[need] == Fate::absent) loss.fates[i] = Fate::absent;
  }
}

void PowerModel::for_each_loss(const std::function<void(const Loss&)>& visit) const {
  for (std::size_t moment = 0; moment <= operations_; ++moment) {
    std::vector<bool> synced = synced_at(moment);
    auto lose = [&](const std::function<Fate(std::size_t)>& choose) {
      Loss loss{moment, std::vector<Fate>(synced.size())};
      for (std::size_t i = 0; i < synced.size(); ++i) loss.fates[i] = choose(i);
      complete(loss, synced);
      visit(loss);
    };
    visit(greatest_loss(moment));
    lose([](std::size_t) { return Fate::present; });
    lose([&](std::size_t i) { return is_data(changes_[i]) ? Fate::absent : Fate::present; });
    lose([&](std::size_t i) { return is_data(changes_[i]) ? Fate::garbage : Fate::present; });
    lose([&](std::size_t i) { return is_data(changes_[i]) ? Fate::present : Fate::absent; });
    for (std::size_t one = 0; one < synced.size(); ++one) {
      if (synced[one]) continue;
      lose([&](std::size_t i) { return i == one ? Fate::absent : Fate::present; });
      const auto& needs = changes_[one].needs;
      lose([&](std::size_t i) {
        return i == one || std::count(needs.begin(), needs.end(), i) ? Fate::present : Fate::absent;
      });
    }
  }
}

PowerModel::Loss PowerModel::greatest_loss(std::size_t moment) const {
  Loss loss{moment, std::vector<Fate>(changes_before(moment), Fate::absent)};
  complete(loss, synced_at(moment));
  return loss;
}

PowerModel::Loss PowerModel::random_loss(std::uint64_t seed) const {
  std::mt19937_64 random(seed);
  Loss loss;
  loss.moment = random() % (operations_ + 1);
  std::vector<bool> synced = synced_at(loss.moment);
  std::uint64_t lost = 1 + random() % 9;  // tenths of what was not synced
  for (std::size_t i = 0; i < synced.size(); ++i)
    loss.fates.push_back(random() % 10 >= lost ? Fate::present : random() % 2 ? Fate::absent : Fate::garbage);
  complete(loss, synced);
  return loss;
}

Tree PowerModel::disk_after(const Loss& loss) const {
  Tree tree = start_;
  for (std::size_t i = 0; i < loss.fates.size(); ++i) {
    if (loss.fates[i] == Fate::absent) continue;
    Operation operation = changes_[i].operation;
    if (loss.fates[i] == Fate::garbage) operation.bytes.assign(operation.bytes.size(), '\xA5');
    replay(tree, operation);
  }
  return tree;
}

namespace {
void materialise_folder(const Tree& tree, InodeId folder, const std::filesystem::path& where) {
  std::filesystem::create_directory(where);
  for (const auto& [name, inode] : tree.at(folder).entries) {
    auto found = tree.find(inode);
    if (found != tree.end() && found->second.folder)
      materialise_folder(tree, inode, where / name);
    else
      std::ofstream(where / name, std::ios::binary) << (found == tree.end() ? std::string() : found->second.bytes);
  }
}

void hash_folder(const Tree& tree, InodeId folder, std::size_t& hash) {
  auto mix = [&](const std::string& text) { hash = hash * 1099511628211u ^ std::hash<std::string>()(text); };
  for (const auto& [name, inode] : tree.at(folder).entries) {
    mix(name);
    auto found = tree.find(inode);
    if (found != tree.end() && found->second.folder) {
      mix("(");
      hash_folder(tree, inode, hash);
      mix(")");
    } else if (found != tree.end()) {
      mix(found->second.bytes);
    }
  }
}
}  // namespace

void materialise(const Tree& tree, const std::filesystem::path& where) {
  materialise_folder(tree, 0, where);
}

std::size_t hash_of(const Tree& tree) {
  std::size_t hash = 14695981039346656037u;
  hash_folder(tree, 0, hash);
  return hash;
}

}  // namespace distdl::checkpoint::proof
