// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include <distdl/kernels/backend.hpp>

namespace distdl::model {

/// Replays of a pass, if the backend supports them. There is one for every target and every scale of the loss, because
/// a recording keeps both.
class StepReplays {
 public:
  using Make = std::function<std::unique_ptr<kernels::Replay>()>;
  explicit StepReplays(Make make) : make_(std::move(make)) {}

  /// pass() writes to `target`. Passes may differ only in `target` and `scale`.
  void run(const float* target, float scale, const std::function<void()>& pass);
  /// Must be called when other memory that the passes use has moved.
  void forget() { replays_.clear(); }

 private:
  static constexpr std::size_t kMost = 16;  ///< then the oldest is removed
  struct Entry {
    const float* target;
    float scale;
    std::unique_ptr<kernels::Replay> replay;
  };
  Make make_;
  bool warned_ = false;
  std::vector<Entry> replays_;
};

}  // namespace distdl::model
