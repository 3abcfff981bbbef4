// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <deque>
#include <vector>

#include <distdl/base/errors.hpp>
#include <distdl/kernels/cuda/device/accelerator.hpp>
#include <distdl/kernels/cuda/device/cuda_error.hpp>
#include <distdl/kernels/cuda/primitives/reduce.hpp>
#include <distdl/kernels/cuda/primitives/reduce_passes.hpp>

namespace distdl::kernels::cuda {
namespace {

/// A stream, and events that mark how far it is.
class Track {
 public:
  cudaStream_t stream() const { return stream_.get(); }
  std::uint64_t mark() {
    if (idle_.empty()) idle_.push_back(make_event());
    check(cudaEventRecord(idle_.back().get(), stream_.get()), "mark work on the GPU");
    pending_.push_back(std::move(idle_.back()));
    idle_.pop_back();
    return ++marked_;
  }
  bool reached(std::uint64_t number) {
    for (; reached_ < number; ++reached_) {
      const cudaError_t code = cudaEventQuery(pending_.front().get());
      if (code == cudaErrorNotReady) return false;
      check(code, "finish work on the GPU");
      idle_.push_back(std::move(pending_.front()));
      pending_.pop_front();
    }
    return true;
  }

 private:
  Stream stream_ = make_stream();
  std::deque<Event> pending_;
  std::vector<Event> idle_;
  std::uint64_t marked_ = 0, reached_ = 0;
};

class CudaAccelerator final : public tensor::Accelerator {
 public:
  explicit CudaAccelerator(const SharedDevice& device) : device_(device) {}
  ~CudaAccelerator() override { CudaAccelerator::drain(); }

  std::string description() const override { return device_->description(); }
  std::string memory_type() const override { return "cuda"; }
  bool owns(const void* address) const override {
    cudaPointerAttributes attributes{};
    check(cudaPointerGetAttributes(&attributes, address), "find out where memory is");
    return attributes.type == cudaMemoryTypeDevice || attributes.type == cudaMemoryTypeManaged;
  }

  tensor::Buffer allocate(std::size_t bytes) override { return device_->allocate_unset(bytes); }
  tensor::Buffer allocate_staging(std::size_t bytes) override { return device_->allocate_pinned(bytes); }

  void follow_caller() override { follow(main(), device_->stream()); }
  Mark copy_to_host(void* to, const void* from, std::size_t bytes) override {
    follow(to_host(), main());
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, to_host()), "copy from the GPU");
    return tracks_[kToHost].mark() << kTrackBits | kToHost;
  }
  void copy_from_host(void* to, const void* from, std::size_t bytes) override {
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, main()), "copy to the GPU");
  }
  void reduce(tensor::DataType type, tensor::Reduction reduction, std::span<const tensor::ReduceSource> sources,
              std::span<void* const> targets, std::size_t count, double scale) override;

  Mark mark() override {
    device_->make_current();
    return tracks_[kMain].mark() << kTrackBits | kMain;
  }
  bool reached(Mark mark) override {
    device_->make_current();
    return tracks_[mark & ((1 << kTrackBits) - 1)].reached(mark >> kTrackBits);
  }
  void drain() noexcept override {
    for (const Track& track : tracks_) cuda::drain(track.stream());
  }

  void* library_queue() override {
    follow(tracks_[kLibrary].stream(), device_->stream());
    return tracks_[kLibrary].stream();
  }
  Mark mark_library() override { return tracks_[kLibrary].mark() << kTrackBits | kLibrary; }

 private:
  enum { kMain, kToHost, kLibrary, kTracks };
  static constexpr int kTrackBits = 2;

  cudaStream_t main() const {
    device_->make_current();
    return tracks_[kMain].stream();
  }
  cudaStream_t to_host() const { return tracks_[kToHost].stream(); }
  /// Lets later work in `later` wait for the present work in `earlier`.
  void follow(cudaStream_t later, cudaStream_t earlier) {
    check(cudaEventRecord(fence_.get(), earlier), "mark work on the GPU");
    check(cudaStreamWaitEvent(later, fence_.get(), 0), "order work on the GPU");
  }

  SharedDevice device_;
  std::array<Track, kTracks> tracks_;
  Event fence_ = make_event();
  tensor::Buffer workspace_;  ///< for partial results of very long sums
};

void CudaAccelerator::reduce(tensor::DataType type, tensor::Reduction reduction,
                             std::span<const tensor::ReduceSource> sources, std::span<void* const> targets,
                             std::size_t count, double scale) {
  const std::size_t bytes = count * tensor::size_of(type);
  if (sources.size() == 1 && scale == 1) {
    for (void* target : targets)
      if (target != sources[0].data)
        check(cudaMemcpyAsync(target, sources[0].data, bytes, cudaMemcpyDeviceToDevice, main()), "copy on the GPU");
    return;
  }
  const std::size_t stride = (bytes + 255) / 256 * 256;
  const auto workspace = [&](int index) {
    if (workspace_.bytes() < ReducePass::kPartials * stride) {
      drain();
      workspace_ = allocate(ReducePass::kPartials * stride);
    }
    return static_cast<std::byte*>(workspace_.data()) + static_cast<std::size_t>(index) * stride;
  };
  for (const ReducePass& pass : passes_of(sources, targets, scale, workspace))
    cuda::reduce(main(), type, reduction, pass, count);
}

}  // namespace

std::shared_ptr<tensor::Accelerator> make_accelerator(const SharedDevice& device) {
  device->make_current();
  return std::make_shared<CudaAccelerator>(device);
}

}  // namespace distdl::kernels::cuda
