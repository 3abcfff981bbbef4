// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <distdl/comm/shm/node_memory.hpp>

namespace distdl::comm {

/// The ranks of one communicator on one node. They share the progress of operations through control blocks in shared
/// memory. An operation reuses the control blocks of the operation kControlBlocks before it, and, unless it is short,
/// the operand blocks of the one kOperandBlocks before it.
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
  OperandBlock& operand_block(int local, std::uint64_t number) const {
    return memory_.operand_block(local, static_cast<int>(number % NodeMemory::kOperandBlocks));
  }
  /// The last operation that used the memory of this one before. When all ranks of the node have completed it, this one
  /// may begin.
  static std::uint64_t previous(std::uint64_t number, bool is_short) {
    const std::uint64_t distance = is_short ? NodeMemory::kControlBlocks : NodeMemory::kOperandBlocks;
    return number > distance ? number - distance : 0;
  }
  bool all_have_completed(std::uint64_t number) {
    for (int local = 0; number > all_completed_ && local < size(); ++local)
      if (!has_completed(local, number)) return false;
    if (number > all_completed_) all_completed_ = *std::min_element(known_.begin(), known_.end());
    return true;
  }
  bool has_completed(int local, std::uint64_t number) {
    if (known_[local] < number) known_[local] = memory_.completed(local).load(std::memory_order_acquire);
    return known_[local] >= number;
  }
  void signal(std::uint64_t number, std::uint32_t stage) const {
    ControlBlock& own = control_block(self(), number);
    own.completed.store(completed_, std::memory_order_release);
    own.reached.store(number << ControlBlock::kStageBits | stage, std::memory_order_release);
  }
  bool has_reached(int local, std::uint64_t number, std::uint32_t stage) {
    ControlBlock& theirs = control_block(local, number);
    if (theirs.reached.load(std::memory_order_acquire) < (number << ControlBlock::kStageBits | stage)) return false;
    known_[local] = std::max(known_[local], theirs.completed.load(std::memory_order_acquire));
    return true;
  }
  /// Fetches this rank's control block of a later operation to write it; else a store would wait for those that have
  /// read it. `bytes`: of its payload.
  void prepare(std::uint64_t number, std::size_t bytes) const {
    constexpr std::uint64_t kAhead = 6;
    if (number + kAhead > all_completed_ + NodeMemory::kControlBlocks) return;
    const auto* const later = reinterpret_cast<const char*>(&control_block(self(), number + kAhead));
    fetch_to_write(later);
    if (bytes > 40) fetch_to_write(later + 64);
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
  /// GCC's builtin fetches lines to read them only, without an option that not all x86-64 processors allow.
  static void fetch_to_write(const char* line) {
#ifdef __x86_64__
    asm volatile("prefetchw %0" : : "m"(*line));
#else
    __builtin_prefetch(line, 1);
#endif
  }

  NodeMemory& memory_;
  std::vector<std::uint64_t> known_;  ///< per rank: the last of its completed operations, as far as this rank knows
  std::uint64_t all_completed_ = 0;   ///< the least of them, at some time
  std::uint64_t number_ = 0;
  std::uint64_t completed_ = 0;
  std::vector<std::uint64_t> early_;  ///< completed operations with an uncompleted earlier one
};

}  // namespace distdl::comm
