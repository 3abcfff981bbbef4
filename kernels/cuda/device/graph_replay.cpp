// SPDX-License-Identifier: Apache-2.0
#include <distdl/kernels/cuda/device/cuda_error.hpp>
#include <distdl/kernels/cuda/device/graph_replay.hpp>

namespace distdl::kernels::cuda {

void GraphReplay::run(const std::function<void()>& work) {
  const bool is_as_before = has_run_ && moves_ == device_->moves();
  if (!is_as_before) recording_ = Recording();
  if (is_as_before && !recording_ && !obstacle_) {
    std::string problem;
    if (auto recording = record(device_->stream(), work, problem))
      recording_ = std::move(*recording);
    else
      obstacle_ = problem;
  }
  if (recording_)
    check(cudaGraphLaunch(recording_.get(), device_->stream()), "replay recorded work");
  else
    work();
  has_run_ = true;
  moves_ = device_->moves();
}

}  // namespace distdl::kernels::cuda
