// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include <distdl/kernels/cuda/cuda_error.hpp>
#include <distdl/kernels/cuda/staging_ring.hpp>

namespace distdl::kernels::cuda {

StagingRing::StagingRing(const Device& device) {
  for (auto& slot : slots_) slot = {device.allocate_pinned(kSlotBytes), make_event()};
}

void StagingRing::send(const Device& device, void* to, const void* from, std::size_t bytes) {
  Slot& slot = slots_[sends_++ % kSlots];
  cudaStream_t stream = device.stream();
  check(cudaEventSynchronize(slot.sent.get()), "wait for an earlier copy to the GPU");  // at once if there was none
  std::memcpy(slot.memory.data(), from, bytes);
  check(cudaMemcpyAsync(to, slot.memory.data(), bytes, cudaMemcpyHostToDevice, stream), "copy to the GPU");
  check(cudaEventRecord(slot.sent.get(), stream), "mark a copy to the GPU");
}

}  // namespace distdl::kernels::cuda
