// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/checkpoint/multilevel/buffer_rotation.hpp>

namespace distdl::checkpoint {

SlotRotation::SlotRotation(std::string run, std::string memory, int rank, const std::optional<Protection>& levels)
    : run_(std::move(run)), memory_(std::move(memory)), rank_(rank), levels_(levels) {}

/// One to fill, the newest, and the newest of each kind that has something elsewhere.
std::size_t SlotRotation::usual() const {
  if (!levels_) return 2;
  return levels_->partner && levels_->parity ? 4 : 3;
}

void SlotRotation::make_room(std::optional<SlotMemory>& slot, std::size_t bytes) {
  if (slot && slot->bytes().size() >= bytes) return;
  if (slot) slot->remove();
  slot.reset();
  try {
    try {
      slot.emplace(SlotMemory::create(memory_, rank_, bytes));
    } catch (const StorageError&) {
      if (sweep_slots(run_) == 0) throw;
      slot.emplace(SlotMemory::create(memory_, rank_, bytes));
    }
  } catch (const StorageError& error) {
    log(Severity::warning, "{}; private memory is taken instead", error.what());
    slot.emplace(SlotMemory::create_private(bytes));
  }
}

void SlotRotation::prepare(std::size_t bytes) {
  for (std::size_t i = 0; i < usual(); ++i) make_room(slots_[i], bytes);
}

void SlotRotation::take_next(std::size_t bytes) {
  current_ = 0;
  while (current_ == newest_ || current_ == with_partner_ || current_ == with_parity_) ++current_;
  make_room(slots_[current_], bytes);
}

void SlotRotation::sealed() {
  newest_ = current_;
  current().touch();
}

void SlotRotation::kept_elsewhere(const Protection& how) {
  if (how.partner) with_partner_ = current_;
  if (how.parity) with_parity_ = current_;
}

std::string SlotRotation::newest_name() const {
  return newest_ ? slots_[*newest_]->name() : "";
}

void SlotRotation::remove() noexcept {
  for (auto& slot : slots_)
    if (slot) slot->remove();
}

void SlotRotation::release() noexcept {
  newest_.reset();
  with_partner_.reset();
  with_parity_.reset();
  for (auto& slot : slots_) slot.reset();
}

}  // namespace distdl::checkpoint
