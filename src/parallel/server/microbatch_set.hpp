// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <set>

#include <distdl/parallel/server/rules.hpp>

namespace distdl::parallel::server {

/// The ledger: which microbatches of a run have been counted. It needs memory only for those that came early.
class MicrobatchSet {
 public:
  MicrobatchSet() = default;
  /// All before this one.
  explicit MicrobatchSet(Microbatch below) : below_(below) {}
  /// False: it was there.
  bool add(Microbatch microbatch);
  bool contains(Microbatch microbatch) const { return microbatch < below_ || beyond_.contains(microbatch); }
  /// All before this one are there, and it is not.
  Microbatch below() const { return below_; }
  /// None from this one on is there.
  Microbatch end() const { return beyond_.empty() ? below_ : Microbatch(beyond_.rbegin()->value + 1); }
  /// Those after below().
  const std::set<Microbatch>& beyond() const { return beyond_; }
  std::int64_t size() const { return below_.value + static_cast<std::int64_t>(beyond_.size()); }
  bool operator==(const MicrobatchSet&) const = default;

  friend MicrobatchSet intersection(const MicrobatchSet& a, const MicrobatchSet& b);

 private:
  Microbatch below_{0};
  std::set<Microbatch> beyond_;
};

MicrobatchSet intersection(const MicrobatchSet& a, const MicrobatchSet& b);

}  // namespace distdl::parallel::server
