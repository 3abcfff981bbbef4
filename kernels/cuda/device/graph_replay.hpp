// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include <distdl/kernels/cuda/layers/layers.hpp>

namespace distdl::kernels::cuda {

/// A replay by a CUDA graph. The first run is executed normally, so that libraries and memory are initialized; the
/// second one is recorded. When a workspace of the device moves, recording starts again. If recording fails, every run
/// is executed normally.
class GraphReplay : public Replay {
 public:
  explicit GraphReplay(SharedDevice device) : device_(std::move(device)) {}
  void run(const std::function<void()>& work) override;
  std::optional<std::string> obstacle() const override { return obstacle_; }

 private:
  SharedDevice device_;
  Recording recording_;
  bool has_run_ = false;
  std::optional<std::string> obstacle_;
  std::uint64_t moves_ = 0;  ///< Device::moves() at the last run
};

}  // namespace distdl::kernels::cuda
