// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <distdl/base/log.hpp>
#include <distdl/model/step_replays.hpp>

namespace distdl::model {

void StepReplays::run(const float* target, float scale, const std::function<void()>& pass) {
  auto entry = std::find_if(replays_.begin(), replays_.end(),
                            [&](const Entry& other) { return other.target == target && other.scale == scale; });
  if (entry == replays_.end()) {
    if (replays_.size() == kMost) replays_.erase(replays_.begin());
    entry = replays_.insert(replays_.end(), Entry{target, scale, make_()});
  }
  if (!entry->replay) return pass();
  entry->replay->run(pass);
  if (warned_) return;
  if (const auto obstacle = entry->replay->obstacle()) {
    log(Severity::warning, "a step cannot be recorded, so its kernels are launched one by one: {}", *obstacle);
    warned_ = true;
  }
}

}  // namespace distdl::model
