// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include <distdl/kernels/backend.hpp>

namespace distdl::model {

/// Parts of a step, each recorded where the backend has a Replay for it: one for every place where results go and every
/// scale of the loss, since a record keeps both.
class StepReplays {
 public:
  using Make = std::function<std::unique_ptr<kernels::Replay>()>;
  explicit StepReplays(Make make) : make_(std::move(make)) {}

  /// pass() writes to `target`, which with `scale` is all that differs between passes.
  void run(const float* target, float scale, const std::function<void()>& pass);
  /// What they read otherwise has moved.
  void forget() { replays_.clear(); }

 private:
  static constexpr std::size_t kMost = 16;  ///< then the oldest is forgotten
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
