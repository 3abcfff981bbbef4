// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <system_error>
#include <utility>

#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/checkpoint/multilevel/buffer_rotation.hpp>
#include <distdl/checkpoint/multilevel/level.hpp>

namespace distdl::checkpoint {

BufferRotation::BufferRotation(std::string run, std::string memory, int rank, const std::optional<Protection>& levels)
    : run_(std::move(run)),
      memory_(std::move(memory)),
      rank_(rank),
      levels_(levels),
      buffers_(2 + checkpoint::levels().size()) {}

void BufferRotation::make_room(std::optional<SnapshotMemory>& buffer, std::size_t bytes) {
  if (buffer && buffer->bytes().size() >= bytes) return;
  if (buffer) buffer->remove();
  buffer.reset();
  try {
    try {
      buffer.emplace(SnapshotMemory::create(memory_, rank_, bytes));
    } catch (const StorageError&) {
      if (sweep_buffers(run_) == 0) throw;
      buffer.emplace(SnapshotMemory::create(memory_, rank_, bytes));
    }
  } catch (const StorageError& error) {
    log(Severity::warning, "{}; private memory is used instead", error.what());
    buffer.emplace(SnapshotMemory::create_private(bytes));
  }
}

void BufferRotation::prepare(std::size_t bytes) {
  await_preparation();
  const auto make = [this, bytes](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) make_room(buffers_[i], bytes);
  };
  try {
    first_ = std::async(std::launch::async, make, 0, 1).share();
    preparation_ = std::async(std::launch::async, [make, first = first_, count = snapshot_buffers(levels_)] {
      first.wait();
      make(1, count);
    });
  } catch (const std::system_error&) {  // no more threads here
    await_preparation();
    make(0, snapshot_buffers(levels_));
  }
}

/// A buffer that could not be made is tried again when it is needed.
void BufferRotation::await_preparation() noexcept {
  if (first_.valid()) first_.wait();
  if (preparation_.valid()) preparation_.wait();
  first_ = {};
  preparation_ = {};
}

void BufferRotation::take_next(std::size_t bytes) {
  const auto is_kept = [this](std::size_t buffer) {
    return std::ranges::any_of(kept_, [buffer](const auto& each) { return each.second == buffer; });
  };
  current_ = 0;
  while (current_ == newest_ || is_kept(current_)) ++current_;
  if (current_ > 0) await_preparation();
  if (first_.valid()) first_.wait();
  make_room(buffers_[current_], bytes);
}

void BufferRotation::sealed() {
  newest_ = current_;
  current().touch();
}

void BufferRotation::kept_elsewhere(const Protection& how) {
  for (const Level* level : checkpoint::levels())
    if (level->in_memory && how.has(*level)) kept_[level] = current_;
}

std::string BufferRotation::newest_name() const {
  return newest_ ? buffers_[*newest_]->name() : "";
}

void BufferRotation::remove() noexcept {
  await_preparation();
  for (auto& buffer : buffers_)
    if (buffer) buffer->remove();
}

void BufferRotation::release() noexcept {
  await_preparation();
  newest_.reset();
  kept_.clear();
  for (auto& buffer : buffers_) buffer.reset();
}

}  // namespace distdl::checkpoint
