// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <distdl/model/network.hpp>
#include <distdl/parallel/step_tail.hpp>

namespace distdl::parallel {

StepTail::Sums StepTail::read(const float* sums) const {
  using model::Network;
  static_assert(kStopAt >= Network::kTotals && kSaveAt >= Network::kTotals && kStopAt < Network::kTail &&
                kSaveAt < Network::kTail);
  float tail[Network::kTail];
  backend_.copy_to_host(tail, sums + offset_, sizeof tail);
  return {tail[Network::kLossAt], tail[Network::kCorrectAt], std::max(tail[Network::kCountAt], 1.0f), tail[kStopAt] > 0,
          tail[kSaveAt] > 0};
}

}  // namespace distdl::parallel
