// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/checkpoint/multilevel/buffer_rotation.hpp>

namespace distdl::checkpoint {

BufferRotation::BufferRotation(std::string run, std::string memory, int rank, const std::optional<Protection>& levels)
    : run_(std::move(run)), memory_(std::move(memory)), rank_(rank), levels_(levels) {}

/// One to fill, the newest, and the newest of each kind that has something elsewhere.
std::size_t BufferRotation::usual() const {
  if (!levels_) return 2;
  return levels_->partner && levels_->parity ? 4 : 3;
}

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
  for (std::size_t i = 0; i < usual(); ++i) make_room(buffers_[i], bytes);
}

void BufferRotation::take_next(std::size_t bytes) {
  current_ = 0;
  while (current_ == newest_ || current_ == with_partner_ || current_ == with_parity_) ++current_;
  make_room(buffers_[current_], bytes);
}

void BufferRotation::sealed() {
  newest_ = current_;
  current().touch();
}

void BufferRotation::kept_elsewhere(const Protection& how) {
  if (how.partner) with_partner_ = current_;
  if (how.parity) with_parity_ = current_;
}

std::string BufferRotation::newest_name() const {
  return newest_ ? buffers_[*newest_]->name() : "";
}

void BufferRotation::remove() noexcept {
  for (auto& buffer : buffers_)
    if (buffer) buffer->remove();
}

void BufferRotation::release() noexcept {
  newest_.reset();
  with_partner_.reset();
  with_parity_.reset();
  for (auto& buffer : buffers_) buffer.reset();
}

}  // namespace distdl::checkpoint
