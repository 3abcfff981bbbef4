// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include <distdl/parallel/server/microbatch_set.hpp>
#include <distdl/parallel/server/rules.hpp>

// Messages between the roles, and actions that they ask of the program around them. Each message may be lost, repeated,
// delayed and overtaken: the roles repeat unanswered ones at each tick.
namespace distdl::parallel::server {

/// Newer leases of a worker are greater, also those of a later scheduler.
struct LeaseId {
  Leadership leadership{0};
  std::int64_t number = 0;
  auto operator<=>(const LeaseId&) const = default;  // NOLINT(modernize-use-nullptr): it is none
};

/// The owners of a range. In each term each acknowledged update is with both, once the partner has its copy.
struct Holders {
  Node primary;
  std::optional<Node> partner;  ///< none: no other server is there
  Term term{1};
  bool operator==(const Holders&) const = default;
};

/// The primaries of all ranges; newer ones are greater.
struct Directory {
  Leadership leadership{0};
  std::int64_t edition = 0;
  std::vector<Node> primaries;
};

enum class Phase {
  idle,     ///< no lease, or that of a microbatch which is done
  pulling,  ///< no gradient of the lease has been pushed
  working   ///< computing or pushing
};

// --- scheduler and workers

/// Scheduler to all: send your messages here. Servers answer with Inventory, workers with Ask.
struct Lead {
  Leadership leadership;
  std::int64_t round = 0;
};
/// Worker to scheduler, at each tick and at the end of a lease.
struct Ask {
  LeaseId lease;  ///< the newest that it has; {}: none
  Microbatch microbatch;
  Phase phase = Phase::idle;
  bool is_done = false;  ///< the microbatch is in all ranges
};
/// Scheduler to worker. The same id again brings a newer directory.
struct Lease {
  LeaseId id;
  Microbatch microbatch;
  Directory directory;
};
/// Worker to scheduler: the run is to end with the steps that have begun.
struct End {};
/// Scheduler to worker: all microbatches are done.
struct Finish {
  Leadership leadership;
  std::int64_t steps = 0;  ///< steps that the run has
};

// --- ranks, whatever their roles; in no state machine

/// Rank 0 to all: a rank is lost, without which the round goes on, with the steps that have begun.
struct EndsEarly {};
/// To rank 0, after Finish: nothing is to be done any more for the round, and what outlives it is kept.
struct Ended {};
/// Rank 0 to all: all ranks that are there have sent Ended.
struct AllEnded {};

// --- workers and servers

/// Worker to primary: the first piece, of any version that is fresh enough, or another one of the same version.
struct Pull {
  int range = 0;
  LeaseId lease;
  Microbatch microbatch;
  int piece = 0;
  Version version{0};  ///< with piece > 0
};
/// The answer, with the bytes of the piece. Without a version the microbatch is in all ranges, or, if not `is_there`,
/// the version is gone and the pull begins again.
struct Pulled {
  int range = 0;
  LeaseId lease;
  int piece = 0;
  std::optional<Version> version;
  std::int64_t complete = 0;  ///< steps of which the version has all updates
  bool is_there = false;      ///< the range has the update of the microbatch already
};
/// Worker to primary, with the bytes of the gradient.
struct Push {
  int range = 0;
  LeaseId lease;
  Microbatch microbatch;
  Version version{0};         ///< version with which it was computed
  std::int64_t complete = 0;  ///< complete steps of that version
};
/// The update is with both holders of the range.
struct Pushed {
  int range = 0;
  Microbatch microbatch;
};

// --- servers

/// Primary to partner, with the bytes of the gradient.
struct Replicate {
  int range = 0;
  Term term;
  std::int64_t position = 0;  ///< place of the update in the order, from 0
  Microbatch microbatch;
  Version version{0};  ///< version with which it was computed
};
/// State of a range at one of its holders.
struct RangeState {
  MicrobatchSet committed;
  std::vector<Version> versions;         ///< oldest first
  std::vector<std::int64_t> complete{};  ///< steps, per version
};
/// Primary to a new partner, with the bytes of the versions, of the optimizer's state, and of gradients that wait for
/// the end of their step.
struct Copy {
  int range = 0;
  Term term;
  RangeState state;
};
/// Partner to primary: number of updates that it has.
struct Replicated {
  int range = 0;
  Term term;
  std::int64_t updates = 0;
};

// --- scheduler and servers

/// Scheduler to a range's primary.
struct Assign {
  Leadership leadership;
  int range = 0;
  Holders holders;
};
/// The answer, and again when the partner has its copy.
struct Holding {
  int range = 0;
  Term term;
  bool is_copied = false;  ///< or no partner is there
};
/// Server to scheduler: the ranges that it has completely.
struct Inventory {
  struct Held {
    int range = 0;
    Term term;
    bool is_primary = false;
    std::optional<Node> partner;  ///< known to the primary only
    bool is_copied = false;
    MicrobatchSet committed;
  };
  Leadership leadership;
  std::int64_t round = 0;
  std::vector<Held> ranges;
};

using Message = std::variant<Lead, Ask, Lease, Finish, End, Pull, Pulled, Push, Pushed, Replicate, Copy, Replicated,
                             Assign, Holding, Inventory, EndsEarly, Ended, AllEnded>;

/// Throws CommError for a message with numbers that no role of such a run sends: a range that does not exist, a ledger
/// with other microbatches than those of the run, ... Each role checks all received messages.
void check(const Rules& rules, const Message& message);

// --- actions, to be done in their order

struct Send {
  Node to;
  Message message;
};
/// Server: keep the gradient that came with the message, until Apply has named it.
struct Store {
  int range = 0;
  Microbatch microbatch;
};
/// Server: keep the values that came with the message, in place of the present ones of the range.
struct Adopt {
  int range = 0;
};
/// Server: makes a version of the newest one. With `synchronous` the gradients of a step, whose sum is applied.
struct Apply {
  int range = 0;
  Version version{0};
  std::vector<Microbatch> microbatches;  ///< ascending
  std::int64_t staleness = 0;            ///< updates that the parameters of the gradient lacked
};
/// Server: make this version outlive the process, as the one before it does, before the next action is done. With
/// `synchronous` and partners.
struct Keep {
  int range = 0;
  Version version{0};
};
/// Server: nobody reads this version any more.
struct Forget {
  int range = 0;
  Version version{0};
};
/// Worker: compute the gradient with what was pulled; Worker::computed() when it is there.
struct Compute {
  LeaseId lease;
  Microbatch microbatch;
};
/// Scheduler: both holders of a range are lost. All go back to the newest snapshot.
struct Restart {
  int range = 0;
};

using Action = std::variant<Send, Store, Adopt, Apply, Keep, Forget, Compute, Restart>;
using Actions = std::vector<Action>;

}  // namespace distdl::parallel::server
