// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <distdl/parallel/server/microbatch_set.hpp>

namespace distdl::parallel::server {

bool MicrobatchSet::add(Microbatch microbatch) {
  if (microbatch < below_ || !beyond_.insert(microbatch).second) return false;
  while (beyond_.erase(below_) > 0) ++below_.value;
  return true;
}

MicrobatchSet intersection(const MicrobatchSet& a, const MicrobatchSet& b) {
  MicrobatchSet both;
  both.below_ = std::min(a.below_, b.below_);
  const auto add_from = [&](const MicrobatchSet& from, const MicrobatchSet& other) {
    for (const Microbatch microbatch : from.beyond_)
      if (other.contains(microbatch)) both.add(microbatch);
  };
  for (Microbatch next = both.below_; next < std::max(a.below_, b.below_); ++next.value)
    if (a.contains(next) && b.contains(next)) both.add(next);
  add_from(a, b);
  add_from(b, a);
  return both;
}

}  // namespace distdl::parallel::server
