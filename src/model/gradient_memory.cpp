// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include <distdl/model/gradient_memory.hpp>

namespace distdl::model {
namespace {

/// Plans a few blocks of memory that serve many in turn.
class SharedMemory {
 public:
  /// An unused block: the smallest that fits, else the largest, which grows, else a new one.
  int take(std::size_t bytes) {
    const auto better = [&](const Block& one, const Block& other) {
      if ((one.users > 0) != (other.users > 0)) return one.users == 0;
      if (one.users > 0) return false;
      const bool fits = one.bytes >= bytes;
      if (fits != (other.bytes >= bytes)) return fits;
      return fits ? one.bytes < other.bytes : one.bytes > other.bytes;
    };
    auto best = std::min_element(blocks_.begin(), blocks_.end(), better);
    if (best == blocks_.end() || best->users > 0) best = blocks_.insert(blocks_.end(), Block{});
    *best = {std::max(best->bytes, bytes), 1};
    return static_cast<int>(best - blocks_.begin());
  }
  int share(int block) {
    ++blocks_[block].users;
    return block;
  }
  void leave(int block) { --blocks_[block].users; }
  std::vector<std::size_t> sizes() const {
    std::vector<std::size_t> all;
    for (const Block& block : blocks_) all.push_back(block.bytes);
    return all;
  }

 private:
  struct Block {
    std::size_t bytes = 0;
    int users = 0;
  };
  std::vector<Block> blocks_;
};

}  // namespace

GradientMemory plan_gradient_memory(const StagePlan& plan, bool in_pieces) {
  const auto& stages = plan.stages;
  SharedMemory memory;
  constexpr int kNone = -1;
  std::vector<int> block_of(stages.size(), kNone);
  const auto give = [&](int stage, int consumer, bool stays) {
    if (stage < 0 || block_of[stage] != kNone) return;
    block_of[stage] = stays ? memory.share(block_of[consumer]) : memory.take(stages[stage].memory_bytes());
  };
  const int count = static_cast<int>(stages.size());
  for (int k = 0; k < static_cast<int>(plan.head_slices); ++k) give(count - 1 - k, kNone, false);
  for (int i = count - 1; i >= 0; --i) {
    const Stage& stage = stages[i];
    give(i, kNone, false);
    for (int k = 1; k < static_cast<int>(stage.outputs_summed); ++k) give(i - k, i, true);
    if (stage.plus >= 0)
      give(stage.plus, i,
           !in_pieces && stage.is_sliced == stages[stage.plus].is_sliced && !stage.plus_has_other_layout);
    give(stage.from, i, in_pieces ? stage.done_before == kernels::Fusion::whole : stage.in_place);
    // The gradients of the input and of the output are another rank's, too.
    if (!in_pieces && i > 0) memory.leave(block_of[i]);
  }
  return {memory.sizes(), std::move(block_of)};
}

}  // namespace distdl::model
