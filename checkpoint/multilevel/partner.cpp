// SPDX-License-Identifier: Apache-2.0
// A copy in the memory of another failure domain; it protects against the loss of any one domain.
#include <algorithm>

#include <distdl/base/errors.hpp>
#include <distdl/checkpoint/commit/agreement.hpp>
#include <distdl/checkpoint/multilevel/candidates.hpp>
#include <distdl/checkpoint/multilevel/memory_copies.hpp>

namespace distdl::checkpoint {

extern const Level kPartner;

namespace {

/// Throws StorageError (corrupt) unless the sender's sealed buffer has arrived undamaged.
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

class PartnerCopies final : public MemoryCopies {
 public:
  explicit PartnerCopies(const Ranks& ranks) : MemoryCopies(kPartner, ranks), partners_(partners_of(ranks.domains)) {}

  std::optional<std::string> gap() const override {
    if (covers_all()) return std::nullopt;
    const bool is_node = ranks_.setup.place.domain.empty();
    return fmt::format(
        "none of the {} ranks has a partner, because all run in one {}: its loss destroys all snapshots "
        "in memory; use more nodes{}, or set checkpoint.partner_every = 0",
        ranks_.nodes.size(), is_node ? "node" : "failure domain",
        is_node ? "" : R"(, set checkpoint.failure_domain = "node")");
  }

  bool covers_all() const override { return std::ranges::count(partners_, -1) == 0; }

  void protect(std::span<const std::byte> buffer) override {
    Group& group = ranks_.group;
    const SnapshotLabel label = open_snapshot(buffer).label;
    const auto sizes = sizes_of_all(buffer.size());
    std::vector<Group::Incoming> in;
    agree(group, "allocate memory for partners' snapshots", [&] {
      for (int rank = 0; rank < group.size(); ++rank) {
        const auto at = static_cast<std::size_t>(rank);
        if (partners_[at] != group.rank()) continue;
        fresh_.push_back(SnapshotMemory::create(ranks_.setup.memory, rank, sizes[at]));
        in.push_back({rank, fresh_.back().writable().first(sizes[at])});
      }
      return std::string();
    });
    std::vector<Group::Outgoing> out;
    if (const int partner = partners_[static_cast<std::size_t>(group.rank())]; partner >= 0)
      out.push_back({partner, buffer});
    group.exchange_buffers(out, in);
    agree(group, "copy snapshots to partners", [&] {
      for (std::size_t i = 0; i < fresh_.size(); ++i) check_copy(fresh_[i], in[i], label);
      return std::string();
    });
  }

 private:
  std::vector<int> partners_;  ///< partner of each rank; -1: none
};

std::unique_ptr<LevelCopies> make_partner(const Ranks& ranks) {
  return std::make_unique<PartnerCopies>(ranks);
}

/// A snapshot in any node's memory.
std::optional<std::vector<std::size_t>> find_partner(const Candidates& all, int rank) {
  const auto found = all.kept_by(nullptr, rank);
  return found ? std::optional(std::vector{*found}) : std::nullopt;
}

}  // namespace

const Level kPartner{.name = "partner",
                     .in_memory = true,
                     .source = "memory of another node",
                     .key = "checkpoint.partner_every",
                     .every = &Options::partner_every,
                     .make = &make_partner,
                     .find = &find_partner};

}  // namespace distdl::checkpoint
