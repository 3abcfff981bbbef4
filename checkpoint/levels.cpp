// SPDX-License-Identifier: Apache-2.0
// Keeping snapshots in other places; how they come back is in levels_restore.cpp.
#include <algorithm>
#include <cstring>

#include <nlohmann/json.hpp>

#include <distdl/base/checksum.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/checkpoint/commit/agreement.hpp>
#include <distdl/checkpoint/levels.hpp>
#include <distdl/checkpoint/multilevel/redundancy.hpp>

namespace distdl::checkpoint {
namespace {
using nlohmann::json;

/// Checks that the arrived copy is the one that the sender has sealed.
void check_copy(const SnapshotMemory& copy, const Group::Incoming& in, const SnapshotLabel& label) try {
  const Snapshot snapshot = open_snapshot(copy.bytes().first(in.bytes.size()));
  require<StorageError>(moment_of(snapshot.label) == moment_of(label) && snapshot.label.run == label.run,
                        "the snapshot of {} arrived, but one of the same step as that of {} was expected",
                        text_of(snapshot.label), text_of(label));
  verify(snapshot);
} catch (const StorageError& error) {
  throw StorageError(
      fmt::format("the snapshot of rank {}, step {}, was damaged on the way: {}", in.from, label.step, error.what()),
      ExitCode::corrupt);
}

std::optional<SnapshotLabel> label_of(const SnapshotMemory& memory) try {
  return open_snapshot(memory.bytes()).label;
} catch (const StorageError&) {
  return std::nullopt;
}

}  // namespace

Levels::Levels(Group& group, FileSystem& files, Setup setup) : group_(group), setup_(std::move(setup)) {
  require(setup_.parity_set >= 3, "checkpoint.parity_set is {}, but a parity set has at least 3 members",
          setup_.parity_set);
  Domains domains;
  for (const std::string& text : group_.all_gather(json{setup_.place.node, setup_.place.domain}.dump())) {
    const auto place = json::parse(text);
    nodes_.push_back(place.at(0).get<std::string>());
    domains.push_back(place.at(1).get<std::string>());
    if (domains.back().empty()) domains.back() = nodes_.back();
  }
  partners_ = partners_of(domains);
  sets_ = parity_sets(domains, setup_.parity_set);
  if (setup_.disk.empty()) return;
  agree(group_, "use the local disks", [&] {
    disk_.emplace(files, setup_.disk, setup_.run);
    if (is_first_of_node()) disk_->clear_leftovers();  // before any rank writes
    return std::string();
  });
}

std::vector<std::size_t> Levels::ranks_without_parity() const {
  std::vector<std::size_t> ranks;
  for (std::size_t rank = 0; rank < nodes_.size(); ++rank)
    if (std::none_of(sets_.begin(), sets_.end(), [&](const std::vector<int>& set) {
          return std::find(set.begin(), set.end(), static_cast<int>(rank)) != set.end();
        }))
      ranks.push_back(rank);
  return ranks;
}

std::vector<std::string> Levels::gaps() const {
  std::vector<std::string> gaps;
  const std::string domain = setup_.place.domain.empty() ? "node" : "failure domain";
  const std::string nodes = setup_.place.domain.empty() ? "" : R"(, set checkpoint.failure_domain = "node")";
  if (setup_.used.partner && std::count(partners_.begin(), partners_.end(), -1) > 0)
    gaps.push_back(
        fmt::format("none of the {} ranks has a partner, because all run in one {}: its loss destroys all snapshots "
                    "in memory; use more nodes{}, or set checkpoint.partner_every = 0",
                    nodes_.size(), domain, nodes));
  const auto alone = ranks_without_parity();
  if (setup_.used.parity && !alone.empty())
    gaps.push_back(
        fmt::format("{} of {} ranks have no parity (the first is rank {}), because no other {} has a "
                    "counterpart for them: the loss of their {} destroys their snapshots; run equally many ranks on "
                    "several nodes{}, or set checkpoint.parity_every = 0",
                    alone.size(), nodes_.size(), alone.front(), domain, domain, nodes));
  return gaps;
}

int Levels::first_of_node(const std::string& node) const {
  return static_cast<int>(std::find(nodes_.begin(), nodes_.end(), node) - nodes_.begin());
}

std::vector<std::size_t> Levels::sizes_of_all(std::size_t own) {
  std::vector<std::size_t> sizes;
  for (const std::string& size : group_.all_gather(std::to_string(own))) sizes.push_back(std::stoull(size));
  return sizes;
}

static void replace(std::vector<SnapshotMemory>& older, std::vector<SnapshotMemory> fresh) {
  for (SnapshotMemory& one : older) one.remove();
  older = std::move(fresh);
}

Protection Levels::protect(std::span<const std::byte> buffer, const Protection& how) {
  const auto mine = moment_of(open_snapshot(buffer).label);
  const auto is_not_older = [mine](const SnapshotLabel& other) { return moment_of(other) >= mine; };
  std::vector<SnapshotMemory> copies, parity;
  try {
    if (how.partner) copy_to_partner(buffer, copies);
    if (how.parity) share_parity(buffer, parity);
    if (how.disk && disk_) write_to_disk(buffer);
  } catch (...) {
    for (auto* fresh : {&copies, &parity}) replace(*fresh, {});
    throw;
  }
  // All ranks have all of it: only now may older ones go.
  if (how.partner) replace(copies_, std::move(copies));
  if (how.parity) replace(parity_, std::move(parity));
  if (how.disk) remove_from_disk(is_not_older);
  if (how.partner || how.parity || !(setup_.used.partner || setup_.used.parity)) remove_from_memory(is_not_older);
  return {how.partner && std::ranges::count(partners_, -1) == 0, how.parity && ranks_without_parity().empty(),
          how.disk && disk_};
}

void Levels::copy_to_partner(std::span<const std::byte> buffer, std::vector<SnapshotMemory>& copies) {
  const SnapshotLabel label = open_snapshot(buffer).label;
  const auto sizes = sizes_of_all(buffer.size());
  std::vector<Group::Incoming> in;
  agree(group_, "allocate memory for partners' snapshots", [&] {
    for (int rank = 0; rank < group_.size(); ++rank) {
      const auto at = static_cast<std::size_t>(rank);
      if (partners_[at] != group_.rank()) continue;
      copies.push_back(SnapshotMemory::create(setup_.memory, rank, sizes[at]));
      in.push_back({rank, copies.back().writable().first(sizes[at])});
    }
    return std::string();
  });
  std::vector<Group::Outgoing> out;
  if (const int partner = partners_[static_cast<std::size_t>(group_.rank())]; partner >= 0)
    out.push_back({partner, buffer});
  group_.exchange_buffers(out, in);
  agree(group_, "copy snapshots to partners", [&] {
    for (std::size_t i = 0; i < copies.size(); ++i) check_copy(copies[i], in[i], label);
    return std::string();
  });
}

/// A ring within the set: what is to be the parity of one member goes round and takes up a chunk of each other one. A
/// checksum travels along, since parity itself does not show damage.
Levels::Parity Levels::parity_of(std::span<const std::byte> buffer, const std::vector<int>& set, std::size_t longest) {
  const int members = static_cast<int>(set.size());
  const int self = static_cast<int>(std::find(set.begin(), set.end(), group_.rank()) - set.begin());
  const ParityLayout layout{members, longest};
  const auto member = [&](int i) { return set[static_cast<std::size_t>((i + members) % members)]; };
  const std::size_t chunk = layout.chunk();
  std::vector<std::byte> passed(chunk + sizeof(std::uint32_t)), arrived(passed.size());
  std::string damage;
  for (int hop = 1; hop < members; ++hop) {
    const int keeper = (self - hop + members) % members;
    const std::span parity = std::span(passed).first(chunk);
    add_parity(parity, chunk_of(buffer, layout, layout.chunk_of(self, keeper)));
    std::uint32_t crc = crc32c(parity);
    std::memcpy(passed.data() + chunk, &crc, sizeof crc);
    const Group::Outgoing out{member(self + 1), passed};
    const Group::Incoming in{member(self - 1), arrived};
    group_.exchange_buffers({&out, 1}, {&in, 1});
    std::swap(passed, arrived);
    std::memcpy(&crc, passed.data() + chunk, sizeof crc);
    if (const auto found = crc32c(std::span(passed).first(chunk)); found != crc)  // the others go on: so does this one
      damage = fmt::format("parity from rank {} was damaged on the way: checksum {:08x} expected, {:08x} found",
                           in.from, crc, found);
  }
  passed.resize(chunk);
  return {std::move(passed), std::move(damage)};
}

void Levels::share_parity(std::span<const std::byte> buffer, std::vector<SnapshotMemory>& parity) {
  const SnapshotLabel label = open_snapshot(buffer).label;
  const auto sizes = sizes_of_all(buffer.size());
  const auto set = std::find_if(sets_.begin(), sets_.end(), [&](const std::vector<int>& one) {
    return std::find(one.begin(), one.end(), group_.rank()) != one.end();
  });
  Parity made;
  std::vector<std::size_t> set_sizes;
  if (set != sets_.end()) {
    for (int rank : *set) set_sizes.push_back(sizes[static_cast<std::size_t>(rank)]);
    made = parity_of(buffer, *set, *std::max_element(set_sizes.begin(), set_sizes.end()));
  }
  agree(group_, "compute the parity of snapshots", [&] {
    if (!made.damage.empty())
      throw StorageError(fmt::format("the parity of step {}: {}", label.step, made.damage), ExitCode::corrupt);
    if (made.bytes.empty()) return std::string();
    const tensor::Shape shape{static_cast<std::int64_t>(made.bytes.size())};
    const Slice slice{"parity", tensor::DataType::byte, shape, tensor::whole(shape), made.bytes.data(), {}};
    const State state{{kParityKey, json{*set, set_sizes}.dump()}};
    parity.push_back(SnapshotMemory::create(setup_.memory, group_.rank(), buffer_bytes({&slice, 1}, state)));
    fill_buffer(parity.back().writable(), label, {&slice, 1}, state);
    return std::string();
  });
}

void Levels::write_to_disk(std::span<const std::byte> buffer) {
  agree(group_, "write snapshots to the local disks", [&] { return disk_->write(buffer); });
}

/// Removes those of the run's snapshots in this node's memory whose steps are not wanted and that no living process
/// owns.
void Levels::remove_from_memory(const std::function<bool(const SnapshotLabel&)>& is_wanted) {
  if (!is_first_of_node()) return;
  for (const std::string& name : buffers_of(setup_.memory))
    if (const auto replica = look_at(name); !replica || !is_wanted(replica->label)) remove_orphan(name);
}

/// As far as it can: what is left takes room, no more.
void Levels::remove_from_disk(const std::function<bool(const SnapshotLabel&)>& is_wanted) try {
  if (!disk_ || !is_first_of_node()) return;
  for (const auto& [name, label, bytes] : disk_->list())
    if (!is_wanted(label)) disk_->remove(name);
} catch (const StorageError& error) {
  log(Severity::warning, "older snapshots remain on the local disk: {}", error.what());
}

void Levels::keep_only(const std::optional<RestorePlan>& plan) {
  opened_.clear();  // a restore that failed still holds what is to go; others of the node may remove it
  group_.all_gather("");
  const auto is_wanted = [&](const SnapshotLabel& label) {
    return plan && label.start == plan->start && label.step == plan->step && label.world == plan->world;
  };
  for (auto* kept : {&copies_, &parity_})
    std::erase_if(*kept, [&](SnapshotMemory& one) {
      const auto label = label_of(one);  // none if it was to be filled, and that failed
      if (label && is_wanted(*label)) return false;
      one.remove();
      return true;
    });
  remove_from_memory(is_wanted);
  remove_from_disk(is_wanted);
  group_.all_gather("");
}

}  // namespace distdl::checkpoint
