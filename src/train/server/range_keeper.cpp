// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/train/server/range_keeper.hpp>

namespace distdl::train {

RangeKeeper::RangeKeeper(std::string run, checkpoint::Start start, int rank, std::size_t copy_threads)
    : run_(std::move(run)), start_(start), rank_(rank), copy_threads_(copy_threads) {}

void RangeKeeper::keep(int range, int ranges, Step step, std::span<const checkpoint::Slice> slices,
                       const checkpoint::State& state) try {
  if (has_no_memory_) return;
  Range& of = ranges_[range];
  const std::size_t older = 1 - of.newest, bytes = checkpoint::buffer_bytes(slices, state);
  auto& memory = of.places[older];
  if (!memory || memory->bytes().size() < bytes) {
    if (memory) memory->remove();
    memory.reset();  // a range may grow where there is no room for both
    memory.emplace(checkpoint::SnapshotMemory::create(run_, rank_, bytes));
  }
  checkpoint::fill_buffer(memory->writable(), {run_, range, ranges, step, ++sequence_, start_}, slices, state,
                          {.threads = copy_threads_});
  memory->touch();
  of.newest = older;
} catch (const StorageError& error) {
  has_no_memory_ = true;
  remove();
  log(Severity::warning,
      "{}; this rank keeps no versions of ranges: after the loss of a server the run goes on from the newest snapshot "
      "or "
      "checkpoint. Give /dev/shm more room, or leave out parallel.server_partners",
      error.what());
}

void RangeKeeper::remove() noexcept {
  for (auto& [range, of] : ranges_)
    for (auto& memory : of.places)
      if (memory) memory->remove();
  ranges_.clear();
}

}  // namespace distdl::train
