// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include <distdl/parallel/server/messages.hpp>

namespace distdl::parallel::server {

/// One holder's copy of a range: which updates it has, which versions of the parameters can be read, who reads them.
/// An update is first accepted, which gives it its place in the order, and committed when both holders have it. Only
/// committed updates are applied, so nobody reads what the loss of one server could take back.
class RangeCopy {
 public:
  struct Update {
    Microbatch microbatch;
    Version version{0};  ///< version with which it was computed
  };

  /// Begins as at the beginning of a run, or with the state of another holder. `rules` must outlive this object.
  RangeCopy(int range, const Rules& rules);
  RangeCopy(int range, const Rules& rules, const RangeState& state);

  bool is_accepted(Microbatch microbatch) const;
  bool is_committed(Microbatch microbatch) const { return committed_.contains(microbatch); }
  const MicrobatchSet& committed() const { return committed_; }
  /// Number of updates, with those that are only accepted.
  std::int64_t accepted() const { return committed_.size() + static_cast<std::int64_t>(log_.size()); }
  /// Updates that are not committed; the first has the position committed().size().
  const std::deque<Update>& log() const { return log_; }

  void accept(const Update& update);
  /// Commits the updates below this position, and applies them. Returns them.
  std::vector<Microbatch> commit(std::int64_t position, Actions& actions);

  /// Returns the version that this worker reads for the microbatch of its lease; it stays until the worker's next lease
  /// or release(). Empty: none can be read, yet or any more, or the lease is old.
  std::optional<Version> pin(Node worker, const LeaseId& lease, Microbatch microbatch, Actions& actions);
  void release(Node worker, const LeaseId& upto, Actions& actions);
  void release(Node worker, Actions& actions);
  Version newest() const { return versions_.rbegin()->first; }
  bool has(Version version) const { return versions_.contains(version); }
  std::int64_t complete(Version version) const { return versions_.at(version).complete; }

  /// State for a new partner: without versions that only a reader keeps.
  RangeState state() const;

 private:
  struct Pin {
    LeaseId lease;
    Version version;
  };
  struct Readable {
    std::int64_t complete = 0;  ///< complete steps
    int readers = 0;
  };
  std::optional<Version> version_for(Microbatch microbatch) const;
  void apply(const Update& update, Actions& actions);
  bool is_kept(Version version) const;
  void forget_unread(Version version, Actions& actions);

  int range_;
  const Rules* rules_;
  MicrobatchSet committed_;
  std::deque<Update> log_;
  std::set<Microbatch> in_log_;
  std::map<Version, Readable> versions_;
  std::map<Node, Pin> pins_;
};

}  // namespace distdl::parallel::server
