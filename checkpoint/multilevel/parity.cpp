// SPDX-License-Identifier: Apache-2.0
// XOR over a set of ranks of different failure domains; it protects against the loss of one domain per set.
#include <algorithm>
#include <cstring>
#include <utility>

#include <nlohmann/json.hpp>

#include <distdl/base/checksum.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/checkpoint/commit/agreement.hpp>
#include <distdl/checkpoint/multilevel/candidates.hpp>
#include <distdl/checkpoint/multilevel/memory_copies.hpp>
#include <distdl/checkpoint/multilevel/node_snapshots.hpp>

namespace distdl::checkpoint {

extern const Level kParity;

namespace {
using nlohmann::json;

int place_in(const std::vector<int>& set, int rank) {
  return static_cast<int>(std::find(set.begin(), set.end(), rank) - set.begin());
}

struct Parity {
  std::vector<std::byte> bytes;
  std::string damage;  ///< a checksum error on the way; empty: none
};

/// A ring within the set: what is to be the parity of one member goes round and takes up a chunk of each other one. A
/// checksum travels along, since parity itself does not show damage.
Parity parity_of(Group& group, std::span<const std::byte> buffer, const std::vector<int>& set, std::size_t longest) {
  const int members = static_cast<int>(set.size());
  const int self = place_in(set, group.rank());
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
    group.exchange_buffers({&out, 1}, {&in, 1});
    std::swap(passed, arrived);
    std::memcpy(&crc, passed.data() + chunk, sizeof crc);
    if (const auto found = crc32c(std::span(passed).first(chunk)); found != crc)  // the others go on: so does this one
      damage = fmt::format("parity from rank {} was damaged on the way: checksum {:08x} expected, {:08x} found",
                           in.from, crc, found);
  }
  passed.resize(chunk);
  return {std::move(passed), std::move(damage)};
}

class ParityCopies final : public MemoryCopies {
 public:
  explicit ParityCopies(const Ranks& ranks)
      : MemoryCopies(kParity, ranks),
        sets_(parity_sets(ranks.domains, static_cast<int>(ranks.setup.options.parity_set))) {}

  std::optional<std::string> gap() const override {
    const auto alone = ranks_without_set();
    if (alone.empty()) return std::nullopt;
    const bool is_node = ranks_.setup.place.domain.empty();
    const char* const domain = is_node ? "node" : "failure domain";
    return fmt::format(
        "{} of {} ranks have no parity (the first is rank {}), because no other {} has a "
        "counterpart for them: the loss of their {} destroys their snapshots; run equally many ranks on "
        "several nodes{}, or set checkpoint.parity_every = 0",
        alone.size(), ranks_.nodes.size(), alone.front(), domain, domain,
        is_node ? "" : R"(, set checkpoint.failure_domain = "node")");
  }

  bool covers_all() const override { return ranks_without_set().empty(); }

  void protect(std::span<const std::byte> buffer) override {
    Group& group = ranks_.group;
    const SnapshotLabel label = open_snapshot(buffer).label;
    const auto sizes = sizes_of_all(buffer.size());
    const std::vector<int>* const set = set_of(group.rank());
    Parity made;
    std::vector<std::size_t> set_sizes;
    if (set) {
      for (int rank : *set) set_sizes.push_back(sizes[static_cast<std::size_t>(rank)]);
      made = parity_of(group, buffer, *set, *std::max_element(set_sizes.begin(), set_sizes.end()));
    }
    agree(group, "compute the parity of snapshots", [&] {
      if (!made.damage.empty())
        throw StorageError(fmt::format("the parity of step {}: {}", label.step, made.damage), ExitCode::corrupt);
      if (made.bytes.empty()) return std::string();
      const tensor::Shape shape{static_cast<std::int64_t>(made.bytes.size())};
      const Slice slice{"parity", tensor::DataType::byte, shape, tensor::whole(shape), made.bytes.data(), {}};
      const State state{{kParityKey, json{*set, set_sizes}.dump()}};
      fresh_.push_back(SnapshotMemory::create(ranks_.setup.memory, group.rank(), buffer_bytes({&slice, 1}, state)));
      fill_buffer(fresh_.back().writable(), label, {&slice, 1}, state);
      return std::string();
    });
  }

 private:
  /// Null if the rank is in no set.
  const std::vector<int>* set_of(int rank) const {
    const auto found = std::ranges::find_if(
        sets_, [rank](const std::vector<int>& set) { return std::ranges::find(set, rank) != set.end(); });
    return found == sets_.end() ? nullptr : &*found;
  }

  std::vector<std::size_t> ranks_without_set() const {
    std::vector<std::size_t> ranks;
    for (std::size_t rank = 0; rank < ranks_.nodes.size(); ++rank)
      if (!set_of(static_cast<int>(rank))) ranks.push_back(rank);
    return ranks;
  }

  std::vector<std::vector<int>> sets_;
};

void check_set(const Options& options) {
  require(options.parity_set >= 3 && options.parity_set <= 1024,
          "checkpoint.parity_set is {}, but must be between 3 and 1024", options.parity_set);
}

std::unique_ptr<LevelCopies> make_parity(const Ranks& ranks) {
  require(ranks.setup.options.parity_set >= 3, "checkpoint.parity_set is {}, but a parity set has at least 3 members",
          ranks.setup.options.parity_set);
  return std::make_unique<ParityCopies>(ranks);
}

/// The snapshots of all other members of a set, and then their parities.
std::optional<std::vector<std::size_t>> find_in_set(const Candidates& all, int rank, const std::vector<int>& set,
                                                    const std::map<int, std::size_t>& keepers) {
  if (std::ranges::find(set, rank) == set.end()) return std::nullopt;
  std::vector<std::size_t> snapshots, parities;
  for (int member : set) {
    if (member == rank) continue;
    const auto snapshot = all.any(member);
    const auto parity = keepers.find(member);
    if (!snapshot || parity == keepers.end()) return std::nullopt;
    snapshots.push_back(*snapshot);
    parities.push_back(parity->second);
  }
  snapshots.insert(snapshots.end(), parities.begin(), parities.end());
  return snapshots;
}

std::optional<std::vector<std::size_t>> find_parity(const Candidates& all, int rank) {
  for (const auto& [set, keepers] : all.parities())
    if (auto replicas = find_in_set(all, rank, set, keepers)) return replicas;
  return std::nullopt;
}

/// Computes a lost snapshot at the rank that holds the first of the replicas.
class Rebuilding {
 public:
  Rebuilding(NodeSnapshots& node, const ShardPlan& shard, std::span<const Replica> replicas)
      : node_(node),
        group_(node.ranks().group),
        shard_(shard),
        replicas_(replicas),
        set_(replicas[shard.replicas.back()].set),
        sizes_(replicas[shard.replicas.back()].sizes),
        builder_(replicas[shard.replicas[0]].holder) {}

  Replica run() {
    const std::vector<std::byte> whole = compute();
    const auto built = agree(group_, fmt::format("rebuild the snapshot of rank {} from parity", shard_.rank), [&] {
      if (builder_ != group_.rank()) return std::string();
      const std::size_t bytes = sizes_[static_cast<std::size_t>(place_in(set_, shard_.rank))];
      SnapshotMemory& memory = node_.allocate(shard_.rank, bytes);
      std::copy_n(whole.begin(), bytes, memory.writable().begin());
      const auto replica = node_.look_at(memory.name());
      require<StorageError>(replica && replica->label.rank == shard_.rank, "the result is not a snapshot of that rank");
      node_.open(*replica);
      return to_text({&*replica, 1});
    });
    return replicas_from(built[static_cast<std::size_t>(builder_)], group_.size()).at(0);
  }

 private:
  /// All chunks of the snapshot at the rank that rebuilds; empty at the others.
  std::vector<std::byte> compute() {
    const bool mine = builder_ == group_.rank();
    std::vector<std::byte> whole(mine ? layout_.chunk() * (set_.size() - 1) : 0);
    for (int keeper : set_) {
      if (keeper == shard_.rank) continue;
      const std::size_t chunk = layout_.chunk_of(place_in(set_, shard_.rank), place_in(set_, keeper));
      add_chunks(keeper, mine ? std::span(whole).subspan(chunk * layout_.chunk(), layout_.chunk()) : std::span(whole));
    }
    return whole;
  }

  /// Adds up, at the rank that rebuilds, the chunk of the lost snapshot that `keeper`'s parity contains.
  void add_chunks(int keeper, std::span<std::byte> sum) {
    std::vector<Group::Outgoing> out;
    std::vector<Group::Incoming> in;
    std::vector<std::vector<std::byte>> arrived;
    const auto take = [&](const Replica& replica, std::size_t bytes,
                          const std::function<std::span<const std::byte>()>& part) {
      if (bytes == 0) return;
      if (replica.holder == group_.rank() && builder_ == group_.rank())
        add_parity(sum, part());
      else if (replica.holder == group_.rank())
        out.push_back({builder_, part()});
      else if (builder_ == group_.rank())
        in.push_back({replica.holder, arrived.emplace_back(bytes)});
    };
    for (std::size_t i : shard_.replicas) {
      const Replica& replica = replicas_[i];
      if (replica.is_parity()) {
        if (replica.label.rank == keeper)
          take(replica, layout_.chunk(),
               [&] { return std::span(node_.open(replica).snapshot.slices.at(0).bytes, layout_.chunk()); });
      } else if (replica.label.rank != keeper) {
        const std::size_t chunk = layout_.chunk_of(place_in(set_, replica.label.rank), place_in(set_, keeper));
        const std::size_t begin = std::min(replica.bytes, chunk * layout_.chunk());
        take(replica, std::min(layout_.chunk(), replica.bytes - begin),
             [&, chunk] { return chunk_of(node_.open(replica).memory.bytes().first(replica.bytes), layout_, chunk); });
      }
    }
    group_.exchange_buffers(out, in);
    for (const auto& bytes : arrived) add_parity(sum, bytes);
  }

  NodeSnapshots& node_;
  Group& group_;
  const ShardPlan& shard_;
  std::span<const Replica> replicas_;
  const std::vector<int>& set_;
  const std::vector<std::size_t>& sizes_;
  int builder_;
  ParityLayout layout_{static_cast<int>(set_.size()), *std::max_element(sizes_.begin(), sizes_.end())};
};

Replica rebuild_from_parity(NodeSnapshots& node, const ShardPlan& shard, std::span<const Replica> replicas) {
  return Rebuilding(node, shard, replicas).run();
}

}  // namespace

const Level kParity{.name = "parity",
                    .in_memory = true,
                    .source = "parity",
                    .key = "checkpoint.parity_every",
                    .every = &Options::parity_every,
                    .check = &check_set,
                    .make = &make_parity,
                    .find = &find_parity,
                    .rebuild = &rebuild_from_parity};

}  // namespace distdl::checkpoint
