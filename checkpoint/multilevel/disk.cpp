// SPDX-License-Identifier: Apache-2.0
// A copy on the node's own disk; it protects against the loss of all processes and of power.
#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/checkpoint/commit/agreement.hpp>
#include <distdl/checkpoint/disk_snapshots.hpp>
#include <distdl/checkpoint/multilevel/candidates.hpp>
#include <distdl/checkpoint/multilevel/level.hpp>

namespace distdl::checkpoint {

extern const Level kDisk;

namespace {

class DiskCopies final : public LevelCopies {
 public:
  explicit DiskCopies(const Ranks& ranks)
      : LevelCopies(kDisk), ranks_(ranks), disk_(ranks.files, ranks.setup.options.disk_folder, ranks.setup.run) {
    if (ranks_.is_first_of_node()) disk_.clear_leftovers();  // before any rank writes
  }

  void protect(std::span<const std::byte> buffer) override {
    agree(ranks_.group, "write snapshots to the local disks", [&] { return disk_.write(buffer); });
  }

  void remove_older(const IsWanted& is_not_older) override { keep_only(is_not_older); }

  /// A failure is only logged: the files that stay take up space.
  void keep_only(const IsWanted& is_wanted) override try {
    if (!ranks_.is_first_of_node()) return;
    for (const auto& [name, label, bytes] : disk_.list())
      if (!is_wanted(label)) disk_.remove(name);
  } catch (const StorageError& error) {
    log(Severity::warning, "older snapshots remain on the local disk: {}", error.what());
  }

  std::vector<Replica> list() override {
    std::vector<Replica> replicas;
    for (auto& [name, label, bytes] : disk_.list())
      replicas.push_back({label, 0, ranks_.setup.place.node, name, bytes, &kDisk, {}, {}});
    return replicas;
  }

  SnapshotMemory load(const std::string& name) const override { return disk_.load(name); }

 private:
  const Ranks& ranks_;
  DiskSnapshots disk_;
};

void check_folder(const Options& options) {
  require(options.disk_every == 0 || !options.disk_folder.empty(),
          "checkpoint.disk_every is {}, but checkpoint.disk_folder names no folder of the nodes' own disks",
          options.disk_every);
}

std::unique_ptr<LevelCopies> make_disk(const Ranks& ranks) {
  if (ranks.setup.options.disk_every == 0) return nullptr;
  std::unique_ptr<LevelCopies> copies;
  agree(ranks.group, "use the local disks", [&] {
    copies = std::make_unique<DiskCopies>(ranks);
    return std::string();
  });
  return copies;
}

std::optional<std::vector<std::size_t>> find_disk(const Candidates& all, int rank) {
  const auto found = all.kept_by(&kDisk, rank);
  return found ? std::optional(std::vector{*found}) : std::nullopt;
}

}  // namespace

const Level kDisk{.name = "disk",
                  .medium = "a local disk",
                  .source = "a node's disk",
                  .key = "checkpoint.disk_every",
                  .every = &Options::disk_every,
                  .check = &check_folder,
                  .make = &make_disk,
                  .find = &find_disk};

}  // namespace distdl::checkpoint
