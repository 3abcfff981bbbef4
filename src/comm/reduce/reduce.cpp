// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>

#include <distdl/base/errors.hpp>
#include <distdl/comm/reduce/reduce.hpp>
#include <distdl/comm/reduce/reduce_kernels.hpp>

namespace distdl::comm {
namespace {

constexpr std::size_t kBlock = 1024;        ///< bytes; measured: larger ones are slower
constexpr std::size_t kStreamed = 4 << 20;  ///< bytes; smaller targets are written through the caches: measured
constexpr std::size_t kArena = 8 * kBlock;  ///< for partial results
constexpr std::size_t kDepth = 64;          ///< partial results at a time

struct Kernels {
  ReduceKernel reduce, last_reduce;
  ScaleKernel scale;
  CopyKernel copy;

  Kernels(DataType type, Reduction reduction, double by) {
    const auto& all = reduce_kernels();
    const auto t = static_cast<std::size_t>(type);
    const auto r = reduction == Reduction::average ? 0 : static_cast<std::size_t>(reduction);
    reduce = all.reduce[t][r];
    last_reduce = by == 1 ? reduce : all.scaled_sum[t];
    copy = all.copy;
    scale = by == 1 ? nullptr : all.scale[t];
  }
};

std::byte* at(void* address, std::size_t offset) {
  return static_cast<std::byte*>(address) + offset;
}

const std::byte* at(const void* address, std::size_t offset) {
  return static_cast<const std::byte*>(address) + offset;
}

/// Works out blocks of up to `block()` bytes.
class Fold {
 public:
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): arena_ is written before it is read, and large
  Fold(const Kernels& kernels, std::span<const ReduceSource> sources, std::span<void* const> targets,
       std::size_t element, double scale, bool streams)
      : kernels_(kernels), sources_(sources), targets_(targets), element_(element), scale_(scale), streams_(streams) {
    std::size_t depth = 0, deepest = 1;
    for (const ReduceSource& source : sources) {
      deepest = std::max(deepest, ++depth);
      assert(source.reductions >= 0 && static_cast<std::size_t>(source.reductions) < depth);
      depth -= source.reductions;
    }
    assert(depth == 1);
    require<InternalError>(deepest <= kDepth, "a sum has {} partial results at a time, but at most {} were expected",
                           deepest, kDepth);
    block_ = std::min(kBlock, kArena / (deepest + 1) / 64 * 64);
  }

  std::size_t block() const { return block_; }

  void run(std::size_t offset, std::size_t bytes) {
    std::array<const void*, kDepth> partial;  // NOLINT(cppcoreguidelines-pro-type-member-init): written before read
    std::size_t depth = 0;
    for (const ReduceSource& source : sources_) {
      partial[depth++] = at(source.data, offset);
      for (int m = 0; m < source.reductions; ++m) {
        --depth;
        if (&source == &sources_.back() && depth == 1) break;
        void* const sum = arena_ + (depth - 1) * block_;
        kernels_.reduce(sum, nullptr, partial[depth - 1], partial[depth], bytes / element_, 1);
        partial[depth - 1] = sum;
      }
    }
    finish(partial[0], sources_.size() > 1 ? partial[1] : nullptr, offset, bytes);
  }

 private:
  void finish(const void* left, const void* right, std::size_t offset, std::size_t bytes) {
    if (!right && !kernels_.scale) return copy_to(targets_, left, offset, bytes);
    std::span rest = targets_;
    std::byte* first = arena_ + kArena - block_;
    std::byte* second = nullptr;
    if (!streams_) {
      first = at(targets_[0], offset);
      if (targets_.size() > 1) second = at(targets_[1], offset);
      rest = targets_.subspan(std::min<std::size_t>(targets_.size(), 2));
    }
    if (right) {
      kernels_.last_reduce(first, second, left, right, bytes / element_, scale_);
    } else {
      kernels_.scale(first, second, left, bytes / element_, scale_);
    }
    copy_to(rest, first, offset, bytes);
  }

  // A target that is the source is not written: others may be reading it.
  void copy_to(std::span<void* const> targets, const void* source, std::size_t offset, std::size_t bytes) const {
    if (streams_) {
      for (void* target : targets) stream_copy(at(target, offset), source, bytes);
      return;
    }
    std::byte* waiting = nullptr;
    for (void* target : targets) {
      std::byte* const next = at(target, offset);
      if (next == source) continue;
      if (waiting) kernels_.copy(waiting, next, source, bytes);
      waiting = waiting ? nullptr : next;
    }
    if (waiting) std::memcpy(waiting, source, bytes);
  }

  const Kernels& kernels_;
  std::span<const ReduceSource> sources_;
  std::span<void* const> targets_;
  std::size_t element_;
  double scale_;
  bool streams_;
  std::size_t block_ = 0;
  alignas(64) std::byte arena_[kArena];
};

/// Where that is faster: nothing of the targets is in the caches, and they take most of the traffic.
bool are_streamed(std::span<const ReduceSource> sources, std::span<void* const> targets) {
  const auto is_apart = [&](void* target) {
    return std::all_of(sources.begin(), sources.end(),
                       [&](const ReduceSource& source) { return source.data != target; });
  };
  return sources.size() <= targets.size() && std::all_of(targets.begin(), targets.end(), is_apart);
}

}  // namespace

void reduce(DataType type, Reduction reduction, std::span<const ReduceSource> sources, std::span<void* const> targets,
            std::size_t count, double scale) {
  if (count == 0 || targets.empty()) return;
  const std::size_t element = size_of(type);
  const bool streams = count * element >= kStreamed && are_streamed(sources, targets);
  if (sources.size() == 1 && targets.size() == 1 && scale == 1 && !streams) {
    if (targets[0] != sources[0].data) std::memcpy(targets[0], sources[0].data, count * element);
    return;
  }
  const Kernels kernels(type, reduction, scale);
  if (sources.size() == 2 && targets.size() <= 2 && !streams)
    return kernels.last_reduce(targets[0], targets.size() > 1 ? targets[1] : nullptr, sources[0].data, sources[1].data,
                               count, scale);
  Fold fold(kernels, sources, targets, element, scale, streams);
  for (std::size_t offset = 0; offset < count * element; offset += fold.block())
    fold.run(offset, std::min(fold.block(), count * element - offset));
  if (streams) finish_streams();
}

}  // namespace distdl::comm
