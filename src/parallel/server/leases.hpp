// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <set>

#include <distdl/parallel/server/messages.hpp>

namespace distdl::parallel::server {

/// Leases of microbatches to workers. A second or lost lease costs time only: the ledgers of the ranges count each
/// microbatch once, whoever has computed it, and how often.
class Leases {
 public:
  struct Given {
    LeaseId id;
    Microbatch microbatch;
  };

  /// `done`: microbatches that were done under earlier schedulers. `rules` must outlive this object.
  Leases(const Rules& rules, Leadership leadership, MicrobatchSet done);

  /// Returns the lease of the worker from now on: the one that it has, or a new one, of the first free microbatch.
  /// Empty: no microbatch is left for it now. A worker that still waits for parameters gets a returned microbatch in
  /// place of a later one: else all could wait for a microbatch that nobody computes.
  std::optional<Given> answer(Node worker, const Ask& ask);
  /// Gives leases that are older than Rules::late_ticks to other workers, too.
  void tick();
  void lost(Node worker);

  const MicrobatchSet& done() const { return done_; }
  /// True if a worker without a lease gets one.
  bool has_free() { return first_free().has_value(); }
  bool is_finished() const { return done_.below().value >= end_; }
  /// From now on leases no microbatch of a later step than the latest leased one; the first step is done in any case.
  void end_soon();
  std::int64_t steps() const { return end_ / rules_->microbatches; }

 private:
  struct Record {
    Given given;
    bool is_active = false;  ///< its microbatch is not free
    int ticks = 0;
  };
  std::optional<Microbatch> first_free();
  void done(Microbatch microbatch);
  void give_back(Record& record);
  void hold(Node worker, const Given& given);

  const Rules* rules_;
  Leadership leadership_;
  MicrobatchSet done_;
  std::int64_t end_;        ///< microbatches of the run
  std::int64_t begun_ = 0;  ///< steps of which microbatches were leased or are done
  std::int64_t number_ = 0;
  std::map<Node, Record> records_;
  std::multiset<Microbatch> active_;
  Microbatch next_;                ///< no microbatch before it is free, except returned ones
  std::set<Microbatch> returned_;  ///< microbatches that were given back: neither leased nor done
};

}  // namespace distdl::parallel::server
