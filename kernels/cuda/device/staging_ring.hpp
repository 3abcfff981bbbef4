// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <distdl/kernels/cuda/device/device.hpp>

namespace distdl::kernels::cuda {

/// Copies to the GPU from memory that the caller may change at once, in pieces: each goes into a pinned slot, by a
/// stream for copies into a slot of the GPU while the other stream still computes, and from there in the order of that
/// stream to its place. So a training step waits neither for the GPU nor, on the GPU, for the next samples.
class StagingRing {
 public:
  explicit StagingRing(const Device& device);
  /// Waits only if all slots are on their way.
  void send(const Device& device, void* to, const void* from, std::size_t bytes);

 private:
  static constexpr std::size_t kSlots = 4;
  static constexpr std::size_t kSlotBytes = std::size_t{4} << 20;

  struct Slot {
    tensor::Buffer pinned, on_gpu;
    Event sent, used;  // after the memory, which they guard: it reached the GPU's slot; it left it
  };
  void send_piece(cudaStream_t stream, void* to, const void* from, std::size_t bytes);

  Stream copies_;
  std::array<Slot, kSlots> slots_;
  std::uint64_t sends_ = 0;
};

}  // namespace distdl::kernels::cuda
