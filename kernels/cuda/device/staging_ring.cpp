// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include <distdl/kernels/cuda/device/cuda_error.hpp>
#include <distdl/kernels/cuda/device/staging_ring.hpp>

namespace distdl::kernels::cuda {

StagingRing::StagingRing(const Device& device) : copies_((device.make_current(), make_stream())) {
  for (auto& slot : slots_)
    slot = {device.allocate_pinned(kSlotBytes), device.allocate(kSlotBytes), make_event(), make_event()};
}

void StagingRing::send(const Device& device, void* to, const void* from, std::size_t bytes) {
  for (std::size_t done = 0; done < bytes; done += kSlotBytes)
    send_piece(device.stream(), static_cast<std::byte*>(to) + done, static_cast<const std::byte*>(from) + done,
               std::min(kSlotBytes, bytes - done));
}

// An event that was never recorded counts as reached.
void StagingRing::send_piece(cudaStream_t stream, void* to, const void* from, std::size_t bytes) {
  Slot& slot = slots_[sends_++ % kSlots];
  check(cudaEventSynchronize(slot.sent.get()), "wait for an earlier copy to the GPU");
  std::memcpy(slot.pinned.data(), from, bytes);
  check(cudaStreamWaitEvent(copies_.get(), slot.used.get(), 0), "order copies to the GPU");
  check(cudaMemcpyAsync(slot.on_gpu.data(), slot.pinned.data(), bytes, cudaMemcpyHostToDevice, copies_.get()),
        "copy to the GPU");
  check(cudaEventRecord(slot.sent.get(), copies_.get()), "mark a copy to the GPU");
  check(cudaStreamWaitEvent(stream, slot.sent.get(), 0), "order copies to the GPU");
  check(cudaMemcpyAsync(to, slot.on_gpu.data(), bytes, cudaMemcpyDeviceToDevice, stream), "copy on the GPU");
  check(cudaEventRecord(slot.used.get(), stream), "mark a copy on the GPU");
}

}  // namespace distdl::kernels::cuda
