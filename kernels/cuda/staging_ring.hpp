// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <distdl/kernels/cuda/device.hpp>

namespace distdl::kernels::cuda {

/// Small copies to the GPU from memory that the caller may change at once: the bytes go into a pinned slot and travel
/// from there in the order of the stream, so that a training step need not wait for the GPU to give it the next
/// samples.
class StagingRing {
 public:
  static constexpr std::size_t kSlots = 4;
  static constexpr std::size_t kSlotBytes = std::size_t{4} << 20;

  explicit StagingRing(const Device& device);
  /// At most kSlotBytes. Waits only if all slots are on their way.
  void send(const Device& device, void* to, const void* from, std::size_t bytes);

 private:
  struct Slot {
    tensor::Buffer memory;
    Event sent;  // after the memory, which it guards
  };
  std::array<Slot, kSlots> slots_;
  std::uint64_t sends_ = 0;
};

}  // namespace distdl::kernels::cuda
