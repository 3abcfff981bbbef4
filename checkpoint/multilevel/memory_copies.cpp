// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include <distdl/base/errors.hpp>
#include <distdl/checkpoint/multilevel/memory_copies.hpp>

namespace distdl::checkpoint {
namespace {

/// Returns nothing if the buffer was to be filled and that failed.
std::optional<SnapshotLabel> label_of(const SnapshotMemory& memory) try {
  return open_snapshot(memory.bytes()).label;
} catch (const StorageError&) {
  return std::nullopt;
}

}  // namespace

void keep_only(std::vector<SnapshotMemory>& buffers, const IsWanted& is_wanted) {
  std::erase_if(buffers, [&](SnapshotMemory& one) {
    const auto label = label_of(one);
    if (label && is_wanted(*label)) return false;
    one.remove();
    return true;
  });
}

void remove_all(std::vector<SnapshotMemory>& buffers) noexcept {
  for (SnapshotMemory& one : buffers) one.remove();
  buffers.clear();
}

void MemoryCopies::give_up() noexcept {
  remove_all(fresh_);
}

void MemoryCopies::remove_older(const IsWanted&) {
  remove_all(current_);
  current_ = std::exchange(fresh_, {});
}

void MemoryCopies::keep_only(const IsWanted& is_wanted) {
  checkpoint::keep_only(current_, is_wanted);
}

std::vector<std::size_t> MemoryCopies::sizes_of_all(std::size_t own) const {
  std::vector<std::size_t> sizes;
  for (const std::string& size : ranks_.group.all_gather(std::to_string(own))) sizes.push_back(std::stoull(size));
  return sizes;
}

}  // namespace distdl::checkpoint
