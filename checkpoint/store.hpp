// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <distdl/base/errors.hpp>
#include <distdl/base/ids.hpp>
#include <distdl/checkpoint/options.hpp>
#include <distdl/tensor/shape.hpp>

namespace distdl::checkpoint {

class Collector;
class FileSystem;

/// A box of a tensor in this process's memory, dense row-major.
struct Slice {
  std::string name;  ///< "parameter/conv1.weight", "momentum/conv1.weight"
  tensor::DType dtype = tensor::DType::f32;
  tensor::Shape shape;  ///< of the whole tensor
  tensor::Box box;
  const std::byte* bytes = nullptr;
  /// CRC-32C of each 4 MiB of the bytes (the last may be shorter), if they were computed before. They are then written
  /// as they are, so that a read detects bytes that have changed since. Empty: they are computed while writing.
  std::span<const std::uint32_t> checksums = {};
};

/// A box to fill on restore.
struct Target {
  std::string name;
  tensor::DType dtype = tensor::DType::f32;
  tensor::Shape shape;
  tensor::Box box;
  std::byte* bytes = nullptr;
};

/// `passed`: read past the page cache where file system and alignment allow it. That is faster, but other readers on
/// this node have to fetch the same bytes again.
enum class PageCache { used, passed };

/// Small named texts or bytes, equal on all ranks: configuration, position, backend. A key is a valid tensor name other
/// than "distdl.parity", which distdl uses itself.
using State = std::map<std::string, std::string>;

/// The processes that save or restore together. checkpoint does not depend on comm: the caller implements this class.
class Group {
 public:
  virtual ~Group() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Collective: returns all ranks' strings in rank order. Throws if a peer is lost. The timeout is long, because
  /// others may write or read gigabytes before they call it (Options::timeout_seconds).
  virtual std::vector<std::string> all_gather(const std::string& mine) = 0;
  /// The same where no rank has long work on files before the call. The timeout is that of a training step, so that a
  /// rank that hangs is found as early.
  virtual std::vector<std::string> all_gather_in_step(const std::string& mine) { return all_gather(mine); }

  struct Outgoing {
    int to = 0;
    std::span<const std::byte> bytes;
  };
  struct Incoming {
    int from = 0;
    std::span<std::byte> bytes;
  };
  /// Sends and receives all of these at the same time, for Levels. Messages between two ranks arrive in order; the two
  /// ranks make their calls in the same order. Otherwise as all_gather().
  virtual void exchange_buffers(std::span<const Outgoing> out, std::span<const Incoming> in);
  /// From any thread: makes the all_gather under way, and each later one, throw soon. Without that, ending a Saver may
  /// take as long as the timeout.
  virtual void cancel() noexcept {}
};

/// A group of one, for tools.
class SingleProcessGroup final : public Group {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::vector<std::string> all_gather(const std::string& mine) override { return {mine}; }
  void exchange_buffers(std::span<const Outgoing>, std::span<const Incoming>) override {}  // to nobody
};

/// The start that may write to a checkpoint folder, as recorded in OWNER. A run that finds another owner there before a
/// commit is a zombie and must stop: a requeued job may start while its first process still writes.
struct Owner {
  std::string job;  ///< Slurm job id, or "local"
  std::int64_t restart = 0;
  std::uint32_t generation = 0;
  std::string nonce;         ///< random; the same on all ranks of a run
  std::string lineage = {};  ///< random; the same for all who own the folder one after the other, as long as it exists
  std::uint64_t start = 0;   ///< number of the start within the lineage, from 1; Store::take() counts
  std::int64_t keep = 0;     ///< Options::keep of that run, for tools; 0: not told, as by an older distdl
  std::int64_t keep_every = 0;        ///< Options::keep_every of that run
  std::uint64_t snapshots_since = 0;  ///< snapshots (levels.hpp) of starts before this one are ignored
};

/// Whether a start uses the snapshots of earlier starts.
enum class SnapshotUse { newest, none };

/// Which start of a run wrote something. Later ones are greater.
struct Start {
  std::uint64_t number = 0;    ///< Owner::start; 0: not known
  std::uint32_t identity = 0;  ///< of two that took the folder at the same moment
  auto operator<=>(const Start&) const = default;
};
Start start_of(const Owner& owner);

struct TensorEntry {
  std::string name;
  tensor::DType dtype = tensor::DType::f32;
  tensor::Shape shape;
  bool operator==(const TensorEntry&) const = default;
};

/// What the manifest of a committed checkpoint says.
struct Summary {
  Step step;
  std::filesystem::path folder;
  std::uint64_t bytes = 0;      ///< of all files
  std::int64_t written_at = 0;  ///< seconds since 1970
  int world_size = 0;
  std::vector<TensorEntry> tensors;  ///< in name order
  State state;
  std::uint64_t plain_bytes = 0;   ///< of all tensors
  std::uint64_t stored_bytes = 0;  ///< of the same in the files: fewer if they are compressed
  std::uint64_t start = 0;         ///< Owner::start of the run that saved; 0: not known
};

struct SaveReport {
  Step step;
  std::uint64_t bytes = 0;
  double seconds = 0;
};

/// A folder of checkpoints: <root>/step-%012d/{MANIFEST,node0000.h5,...}. See docs/checkpoint-format.md.
/// Not thread-safe. Errors are StorageError with code storage, corrupt, incomplete, incompatible or
/// superseded; on all ranks alike.
class Store {
 public:
  /// Throws ConfigError if the options make no sense.
  Store(const std::filesystem::path& root, Options options);
  /// For tests: with a file system that fails on purpose. It must outlive the store.
  Store(const std::filesystem::path& root, Options options, FileSystem& files);
  Store(Store&&) noexcept;
  /// The copy has the same folder and start, and shares the list of checkpoints to delete.
  Store(const Store&);
  /// The last copy waits for the deletion of old checkpoints, for half a minute at most.
  ~Store();

  /// Collective. Takes the folder: creates it, checks that it is writable and the same one for all ranks, writes OWNER
  /// (rank 0's `owner`; an empty nonce is drawn), removes leftovers of dead runs. From now on every other run's save
  /// fails. SnapshotUse::none: this and all later starts ignore the snapshots of earlier starts.
  void take(Group& group, const Owner& owner, SnapshotUse snapshots = SnapshotUse::newest);
  /// Collective. Throws StorageError (storage) if the file system has no room for two checkpoints of so many bytes.
  /// A checkpoint that exists already counts as one of them. A full disk is thus found before training.
  void check_room(Group& group, std::uint64_t bytes) const;
  /// Collective. Writes the union of all ranks' slices and commits. The slices are disjoint and form whole tensors; a
  /// rank without slices writes no file. On return the checkpoint is durable. If this throws, the previous checkpoints
  /// are untouched. Checkpoints that Options::keep does not cover are then deleted in the background.
  ///
  /// If this step exists already with the same tensors and state, nothing is written; with others, the old checkpoint
  /// goes to quarantine. Throws the same StorageError on every rank if any rank failed: storage (a later try may
  /// succeed), superseded (another run took the folder, so this one must end), or incompatible if the slices do not
  /// form whole tensors. Errors of the group pass through; the next restart then finds out whether the checkpoint
  /// exists. No rank returns before all have done their part.
  SaveReport save(Group& group, Step step, std::span<const Slice> slices, const State& state);
  /// Collective. The summary of the newest committed checkpoint, of a step below `below` if that is given, unverified.
  /// If its manifest cannot be read, only the step is set. Nothing if there is no checkpoint.
  std::optional<Summary> newest(Group& group, std::optional<Step> below = {});
  using Reading = std::function<void(const Summary&)>;
  /// Collective. The newest checkpoint (below `below`) whose manifest, sizes and block checksums hold; each rank
  /// verifies some of its files. With `reading`, each rank calls that to read what it needs instead, so that nothing is
  /// read twice. If it throws StorageError (corrupt or incomplete) on any rank, the search continues with older
  /// checkpoints; other errors pass, on all ranks alike.
  ///
  /// Damaged checkpoints are logged and, if this run owns the folder, moved to quarantine/ with the reason. Returns
  /// nothing if none is valid. Throws StorageError (incompatible) if a newer distdl wrote the checkpoint, (storage) if
  /// it cannot be read for lack of permission.
  std::optional<Summary> newest_valid(Group& group, std::optional<Step> below = {}, const Reading& reading = {});
  /// Fills the targets from a checkpoint and verifies the checksums of all bytes used. Throws StorageError
  /// (incompatible) naming tensor, expected and found shape if they do not match. Not collective.
  void read(const Summary& checkpoint, std::span<const Target> targets, PageCache cache = PageCache::used) const;

  /// The path of the folder without links.
  const std::filesystem::path& root() const noexcept { return root_; }
  /// The absolute path as the run uses it, equal on all nodes: part of the names of its snapshots.
  const std::filesystem::path& named_root() const noexcept { return named_root_; }
  const Options& options() const noexcept { return options_; }
  FileSystem& files() const noexcept { return *files_; }
  /// After take().
  const Owner& owner() const noexcept { return owner_; }

 private:
  void set_aside(Step step, const std::filesystem::path& folder, const std::string& reason) const;
  /// Name and manifest, a line apart, of the newest checkpoint before `below` whose manifest is whole; empty: none.
  std::string next_candidate(std::optional<Step> below) const;

  std::filesystem::path named_root_, root_;
  Options options_;
  Owner owner_;
  FileSystem* files_;
  std::shared_ptr<Collector> collector_;  ///< busy on rank 0 only
  bool taken_ = false;
};

// For tools; none of these writes anything.

/// Committed checkpoints under `root`, oldest first, as far as their manifests can be read.
std::vector<Summary> list(const std::filesystem::path& root);
/// The folder itself if it is one checkpoint (step-...), or of a root its newest, whatever state that is in.
/// Throws StorageError: incomplete if there is none.
std::filesystem::path checkpoint_in(const std::filesystem::path& folder);
/// The checkpoint in checkpoint_in(folder). Throws StorageError as far as its manifest cannot be used.
Summary open(const std::filesystem::path& folder);

struct Finding {
  ExitCode kind = ExitCode::corrupt;                 ///< corrupt, incomplete or incompatible
  std::string file, tensor, message;                 ///< tensor: empty if the damage lies outside of tensors
  std::optional<std::uint64_t> block{};              ///< of the tensor's box in that file, from 0
  std::optional<std::uint32_t> expected{}, found{};  ///< checksums
};
enum class Depth {
  sizes,     ///< the manifest's own checksum and sense, and that its files are there with their sizes
  frame,     ///< also the bytes of its files that belong to no tensor
  bytes,     ///< also every byte of every file
  structure  ///< also that HDF5 finds in the files what the manifest says and nothing else, and no other file is there
};
/// Checks one checkpoint folder; empty if all is well.
/// Throws StorageError (storage) if a file cannot be read for lack of permission.
std::vector<Finding> verify(const std::filesystem::path& folder, Depth depth = Depth::bytes);
/// SHA-256 over name, type, shape and bytes of all tensors in name order; independent of how files are cut.
/// Verifies every block's checksum on the way. Throws StorageError (corrupt, incomplete).
std::string digest(const Summary& checkpoint);

}  // namespace distdl::checkpoint
