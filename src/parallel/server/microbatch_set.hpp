// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <set>

#include <distdl/parallel/server/rules.hpp>

namespace distdl::parallel::server {

/// The ledger: the microbatches of a run that have been counted. It needs memory only for those that came early.
class MicrobatchSet {
 public:
  MicrobatchSet() = default;
  /// Contains all microbatches before this one.
  explicit MicrobatchSet(Microbatch below) : below_(below) {}
  /// Returns false if it was there.
  bool add(Microbatch microbatch);
  bool contains(Microbatch microbatch) const { return microbatch < below_ || beyond_.contains(microbatch); }
  /// The first microbatch that is not there.
  Microbatch below() const { return below_; }
  /// The microbatch after the last one that is there.
  Microbatch end() const { return beyond_.empty() ? below_ : Microbatch(beyond_.rbegin()->value + 1); }
  /// The microbatches after below().
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
