// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <distdl/kernels/cuda/device/device.hpp>

namespace distdl::kernels::cuda {

/// Copies to the GPU from memory that the caller may change at once. The copy is made in pieces. Each piece goes to a
/// pinned buffer, then by a copy stream to a buffer on the GPU while the main stream still computes, and then by the
/// main stream to its target. A training step therefore does not wait for the GPU, and the GPU does not wait for the
/// next samples.
class StagingRing {
 public:
  explicit StagingRing(const Device& device);
  /// Waits only if all buffers are in use.
  void send(const Device& device, void* to, const void* from, std::size_t bytes);

 private:
  static constexpr std::size_t kSlots = 4;
  static constexpr std::size_t kSlotBytes = std::size_t{4} << 20;

  struct Slot {
    tensor::Buffer pinned, on_gpu;
    Event sent,
        used;  // the copy reached the buffer on the GPU; the copy left it; declared after the memory that they guard
  };
  void send_piece(cudaStream_t stream, void* to, const void* from, std::size_t bytes);

  Stream copies_;
  std::array<Slot, kSlots> slots_;
  std::uint64_t sends_ = 0;
};

}  // namespace distdl::kernels::cuda
