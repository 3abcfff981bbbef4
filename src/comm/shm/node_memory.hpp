// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <distdl/base/ids.hpp>
#include <distdl/comm/schedule.hpp>
#include <distdl/comm/shm/mailbox.hpp>
#include <distdl/comm/ucx/activity.hpp>

namespace distdl::comm {

/// The progress of one operation of a rank, in shared memory, for the other ranks of its node. Only the owner writes
/// it, except for the payload.
// Zeroed memory is its initial state. Fields of different writers are in different cache lines.
// NOLINTBEGIN(cppcoreguidelines-pro-type-member-init, clang-analyzer-optin.performance.Padding)
struct alignas(128) ControlBlock {  // processors fetch lines of 64 bytes in pairs
  static constexpr int kStageBits = 24;

  std::atomic<std::uint64_t> reached;  ///< operation << kStageBits | stage; ascends
  /// Copy of NodeMemory::completed() at the time of `reached`, which saves a read.
  std::atomic<std::uint64_t> completed;
  std::atomic<std::uint64_t> fingerprint;  ///< equal on ranks that call the same operation
  std::byte payload[kShortSharedBytes];    ///< Space::shared of an operation with Schedule::is_short
};

/// The memory that an operation needs unless Schedule::is_short.
struct alignas(128) OperandBlock {
  static constexpr std::size_t kParts = 32;  ///< partial sums of a rank that other ranks can read

  std::byte payload[kSharedBytes];  ///< Space::shared
  /// NodeMemory::locate() of the output; written before ControlBlock::reached shows the arrival.
  std::atomic<std::uint64_t> output;
  std::atomic<std::uint32_t> parts;  ///< number of located inputs
  std::atomic<std::uint64_t> inputs[kParts];
};

/// A rank of this node.
struct NodeRank {
  Rank rank;
  std::string segment;  ///< its NodeMemory::name()
};

/// A loss, as recorded by the first rank of a node that detected it.
struct NodeLoss {
  Rank rank;
  int exit_code = 0;
  std::string why;
};

/// A loss in shared memory. The writer fills its own record once, before it announces it on the board.
struct LossRecord {
  std::int32_t rank;
  std::int32_t exit_code;
  char why[240];  ///< ends with a zero; longer texts are truncated
};

/// The rank for which a rank waits, according to its last record.
struct NodeWait {
  std::uint64_t looks = 0;      ///< increases with each record: the rank is alive
  std::optional<Rank> awaited;  ///< empty: it waits for no rank
  std::string operation;        ///< at most 31 characters
};

/// A wait in shared memory. Only its owner writes it, repeatedly; readers compare `looks` before and afterwards (a
/// seqlock).
struct WaitRecord {
  static constexpr std::size_t kWords = 4;

  std::atomic<std::uint64_t> looks;              ///< odd during a write
  std::atomic<std::uint64_t> awaited;            ///< 1 + rank; 0: none
  std::atomic<std::uint64_t> operation[kWords];  ///< text; ends with a zero
};

/// The shared memory of one rank.
struct alignas(128) RankArea {
  static constexpr std::uint64_t kMagic = 0x346D656D6C647364;  ///< must be changed with this layout
  static constexpr int kControlBlocks = 64;
  static constexpr int kOperandBlocks = 4;
  static constexpr int kMailboxes = 16;  ///< further ranks of a node send each other messages by UCX

  std::atomic<std::uint64_t> magic;  ///< written last: whoever has read it sees the rest
  LossRecord loss;
  alignas(128) WaitRecord wait;
  alignas(128) std::atomic<std::uint32_t> board;  ///< used in the area of the node's first rank: 1 + the rank whose
                                                  ///< record came first; 0: none
  alignas(128) std::atomic<std::uint64_t> completed;
  ControlBlock control_blocks[kControlBlocks];
  OperandBlock operand_blocks[kOperandBlocks];
  Mailbox mailboxes[kMailboxes];  ///< mailbox for messages to this rank, per rank of the node
};
// NOLINTEND(cppcoreguidelines-pro-type-member-init, clang-analyzer-optin.performance.Padding)

class SharedSegment;

/// The memory that the ranks of one node share: one segment per rank with its control blocks, and the buffers that
/// ranks allocate later. Segments are POSIX shared memory, mode 0600, named "distdl-<uid>-<job>-<random>". The name is
/// removed as soon as all ranks of the node have mapped the segment. Ranks that are threads of one process share one
/// mapping. Only the atomics and the loss board are thread-safe.
class NodeMemory {
 public:
  /// Operations of one communicator that may be under way; a further one waits for the oldest.
  static constexpr int kControlBlocks = RankArea::kControlBlocks;
  /// Operations that are not Schedule::is_short and may be under way in one communicator.
  static constexpr int kOperandBlocks = RankArea::kOperandBlocks;

  /// Creates this rank's segment. Throws CommError that names /dev/shm and the bytes if there is no space.
  explicit NodeMemory(const std::string& job);
  ~NodeMemory();
  NodeMemory(const NodeMemory&) = delete;
  NodeMemory& operator=(const NodeMemory&) = delete;

  std::string name() const;
  /// Maps the segments of all ranks of this node, including this one, in rank order. Throws CommError that names rank
  /// and segment.
  void attach(std::span<const NodeRank> node_ranks);
  /// Removes the segment's name. All ranks of the node must have attached.
  void unlink() noexcept;

  int size() const { return static_cast<int>(areas_.size()); }  ///< ranks of this node
  int self() const { return self_; }                            ///< index of this rank among them
  Rank rank_of(int local) const { return ranks_[local]; }
  /// The control block of rank `local` of the node for operations with number % kControlBlocks == slot.
  ControlBlock& control_block(int local, int slot) const { return areas_[local]->control_blocks[slot]; }
  /// The operand block of rank `local` of the node for operations with number % kOperandBlocks == slot.
  OperandBlock& operand_block(int local, int slot) const { return areas_[local]->operand_blocks[slot]; }
  /// The messages of rank `from` of the node to rank `to`; both are below RankArea::kMailboxes.
  Mailbox& mailbox(int from, int to) const { return areas_[to]->mailboxes[from]; }
  /// The last operation up to which rank `local` of the node has completed all, so that their control blocks may be
  /// reused. Only the owner writes it.
  std::atomic<std::uint64_t>& completed(int local) const { return areas_[local]->completed; }

  /// A number by which the other ranks find [data, data + bytes) in their own mappings. It is 0 unless the bytes are in
  /// one attached buffer. Threads of one process could also access other memory, but a rank that fails frees it while
  /// others still access it.
  std::uint64_t locate(const void* data, std::size_t bytes) const;
  /// The address in this process of memory that rank `local` of the node located.
  std::byte* resolve(int local, std::uint64_t location) const;

  /// Collective within the node. The caller synchronizes the steps: create() on each rank, exchange of the names,
  /// attach_buffer() on each rank with the names in rank order, and unlink_buffer(). Ids are equal on all ranks if all
  /// create buffers in the same order; sizes may differ. Buffers begin at a page. Throws CommError if there is no
  /// space.
  struct Created {
    int id;
    std::string segment;
    std::byte* data;
  };
  Created create_buffer(std::size_t bytes);
  /// The address in this process of an attached buffer's memory of rank `local` of the node.
  std::byte* data_of(int id, int local) const { return resolve(local, location_of(id)); }
  void attach_buffer(int id, std::span<const std::string> segments);
  void unlink_buffer(int id) noexcept;
  /// Ranks that have attached the buffer keep their mapping. Unknown ids are ignored.
  void release_buffer(int id) noexcept;

  /// Writes to the node's loss board, on which the first loss is kept. Any thread may call this and posted_loss(). If
  /// the writer dies, the board has a complete record or none. Before attach() there is no board.
  void post_loss(const NodeLoss& loss) noexcept;
  /// Cheap enough for every slow wait: it is one atomic load if there is no loss.
  std::optional<NodeLoss> posted_loss() const {
    if (!board_ || board_->load(std::memory_order_acquire) == 0) return std::nullopt;
    return read_loss();
  }

  /// Shows the other ranks of the node that this rank is alive, and for which rank it waits. Not thread-safe.
  void show_wait(std::optional<Rank> awaited, const Operation& operation);
  /// Returns nothing for a rank of another node, a rank without a record, or one that is writing its record.
  std::optional<NodeWait> shown_wait(Rank rank) const;

  /// Removes segments of this user that no living process holds. Returns their number.
  static int sweep();

 private:
  static std::uint64_t location_of(int id);
  struct Buffer;
  struct HasId;
  std::optional<NodeLoss> read_loss() const;

  std::string job_;
  std::shared_ptr<SharedSegment> own_;
  std::vector<std::shared_ptr<SharedSegment>> segments_;  ///< per rank of the node, like the next two members
  std::vector<RankArea*> areas_;
  std::vector<Rank> ranks_;
  int self_ = 0;
  std::atomic<std::uint32_t>* board_ = nullptr;
  std::atomic_flag has_posted_;
  std::vector<Buffer> buffers_;  ///< by address
  int next_buffer_ = 0;
};

}  // namespace distdl::comm
