// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include <distdl/comm/shm/node_memory.hpp>

namespace distdl::comm {

/// The ranks of one communicator on one node. They share the progress of operations through control blocks in shared
/// memory. An operation reuses the control blocks of the operation kControlBlocks before it.
class NodeRanks {
 public:
  explicit NodeRanks(NodeMemory& memory) : memory_(memory), known_(memory.size(), 0) {}

  NodeMemory& memory() const { return memory_; }
  int size() const { return memory_.size(); }
  int self() const { return memory_.self(); }

  /// Number of the next operation. It is equal on all ranks of the node, because they begin operations in the same
  /// order.
  std::uint64_t next() { return ++number_; }
  ControlBlock& control_block(int local, std::uint64_t number) const {
    return memory_.control_block(local, static_cast<int>(number % NodeMemory::kControlBlocks));
  }
  /// Whether all ranks of the node have completed the operation that used these control blocks before.
  bool may_begin(std::uint64_t number) {
    if (number <= NodeMemory::kControlBlocks) return true;
    for (int local = 0; local < size(); ++local)
      if (!has_completed(local, number - NodeMemory::kControlBlocks)) return false;
    return true;
  }
  bool has_completed(int local, std::uint64_t number) {
    if (known_[local] < number) known_[local] = memory_.completed(local).load(std::memory_order_acquire);
    return known_[local] >= number;
  }
  void signal(std::uint64_t number, std::uint32_t stage) const {
    ControlBlock& own = control_block(self(), number);
    own.completed.store(completed_, std::memory_order_relaxed);
    own.reached.store(number << ControlBlock::kStageBits | stage, std::memory_order_release);
  }
  bool has_reached(int local, std::uint64_t number, std::uint32_t stage) {
    ControlBlock& theirs = control_block(local, number);
    if (theirs.reached.load(std::memory_order_acquire) < (number << ControlBlock::kStageBits | stage)) return false;
    known_[local] = std::max(known_[local], theirs.completed.load(std::memory_order_relaxed));
    return true;
  }
  /// Called when a rank may already have signalled that it begins this operation: saves a later wait for the memory.
  void prefetch(int local, std::uint64_t number) const {
    const ControlBlock& theirs = control_block(local, number);
    __builtin_prefetch(&theirs);
    __builtin_prefetch(theirs.payload + 64);
  }
  /// Reports that this rank has completed the operation.
  void complete(std::uint64_t number) {
    const bool in_turn = early_.empty() && number == completed_ + 1;
    if (in_turn)
      ++completed_;
    else
      early_.push_back(number);
    for (bool found = !in_turn; found;) {
      found = false;
      for (std::size_t i = 0; i < early_.size() && !found; ++i) {
        if (early_[i] != completed_ + 1) continue;
        ++completed_;
        early_.erase(early_.begin() + static_cast<std::ptrdiff_t>(i));
        found = true;
      }
    }
    memory_.completed(self()).store(completed_, std::memory_order_release);
  }

 private:
  NodeMemory& memory_;
  std::vector<std::uint64_t> known_;  ///< per rank: the last of its completed operations, as far as this rank knows
  std::uint64_t number_ = 0;
  std::uint64_t completed_ = 0;
  std::vector<std::uint64_t> early_;  ///< completed operations with an uncompleted earlier one
};

}  // namespace distdl::comm
