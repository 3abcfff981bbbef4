// SPDX-License-Identifier: Apache-2.0
// The end of a round, and ranks that are lost before it.
#include <algorithm>
#include <array>
#include <utility>

#include <distdl/base/activity.hpp>
#include <distdl/base/log.hpp>
#include <distdl/parallel/server/rank_nodes.hpp>
#include <distdl/parallel/server/runtime.hpp>

namespace distdl::parallel::server {
namespace {
using namespace std::chrono_literals;
constexpr auto kLook = 50ms;
constexpr auto kStopped = 1s;  ///< a longer time between polls counts so: the process was stopped, maybe others
constexpr std::uint32_t kLateTag = 0x5054;
}  // namespace

/// Returns the ranks that the round can do without. All others have a part of the state to keep, or the scheduler.
std::vector<Rank> Runtime::ranks_to_spare() const {
  std::vector<Rank> ranks;
  for (const Rank rank : setup_.cluster.workers)
    if (setup_.keep_own && rank != Rank(0) && setup_.cluster.server_of(rank) < 0) ranks.push_back(rank);
  return ranks;
}

void Runtime::look_for_losses() {
  for (const Rank rank : communicator_->lost())
    if (lost_.insert(rank).second) go_on_without(rank);
}

/// Continues without a lost rank. Its pushed gradients count, in whichever ranges. Another worker computes its
/// microbatch again for the other ranges.
void Runtime::go_on_without(Rank rank) {
  const Node worker = node_of(rank, Role::worker);
  if (server_) {
    server_->lost(worker);
    perform(node_of(rank_, Role::server), server_->take());
  }
  if (!scheduler_) return;
  log(Severity::warning, "rank {} ({}) is lost: the round goes on without it, with the steps that have begun", rank,
      communicator_->host(rank));
  for (Rank other(0); other.value < communicator_->size(); ++other.value)
    send(node_of(rank_, Role::scheduler), node_of(other, Role::worker), EndsEarly{});
  scheduler_->lost(worker);
  run_scheduler(worker, End{});
}

/// Shows that this rank ends the round: a rank that seems not to be needed any more would be killed soon.
void Runtime::show_end() {
  if (!shown_) shown_.emplace("servers");
  enter_phase(RankPhase::end_round);
}

/// A rank that leaves ends the round of those that still need it, so nobody leaves before all have what they need.
void Runtime::end_round(const std::stop_token& stop) {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;  // next() leaves naming the late rank to this thread
  }
  for (auto& [range, read] : reads_)  // reads of leases that were given up; the memory is used again in the next round
    if (!read.request.wait(stop)) return;
  if (server_ && setup_.keep_own) setup_.keep_own(*finished_);
  ended_.insert(rank_);
  if (rank_ != Rank(0)) send(node_of(rank_, Role::worker), node_of(Rank(0), Role::scheduler), Ended{});
  // Rank 0 names a rank that is late; the others wait for that.
  const auto patience = (rank_ == Rank(0) ? 1 : 2) * communicator_->timeout();
  Clock::duration waited{};
  for (auto looked = Clock::now(); !is_over();) {
    if (stop.stop_requested()) return;
    deliver();
    tell_when_all_ended();
    drop_sent();  // most are away at once: then nothing is left to wake this rank
    const auto now = Clock::now();
    waited += std::min<Clock::duration>(now - std::exchange(looked, now), kStopped);
    if (waited > patience) name_the_late(stop);
    if (!is_over()) communicator_->await_messages(kLook);
  }
  communicator_->tolerate({});
  if (!lost_.empty()) communicator_->await_messages({});  // it throws comm::PeerLost
  const std::lock_guard lock(mutex_);
  steps_ = *finished_;
  is_over_ = true;
  changed_.notify_all();
}

/// Returns the rank for which this rank waits.
std::optional<Rank> Runtime::late_rank() const {
  if (rank_ != Rank(0)) return have_all_ended_ ? std::nullopt : std::optional(Rank(0));
  for (Rank rank(0); rank.value < communicator_->size(); ++rank.value)
    if (!ended_.contains(rank) && !lost_.contains(rank)) return rank;
  return std::nullopt;
}

void Runtime::tell_when_all_ended() {
  if (rank_ != Rank(0) || have_all_ended_ || late_rank()) return;
  have_all_ended_ = true;
  for (Rank rank(1); rank.value < communicator_->size(); ++rank.value)
    send(node_of(rank_, Role::scheduler), node_of(rank, Role::worker), AllEnded{});
}

/// Messages go on only in this thread, so the last ones have to be away.
bool Runtime::is_over() const {
  return have_all_ended_ && std::ranges::none_of(outgoing_, [this](const Outgoing& one) {
           return one.ends_round && !lost_.contains(one.to);
         });
}

/// Waits for a message that nobody sends: so the communicator finds out what is wrong with the rank, and reports it to
/// all.
void Runtime::name_the_late(const std::stop_token& stop) {
  const auto rank = late_rank();
  if (!rank) return;
  log(Severity::warning, "rank {} ({}) has not ended the round within comm.timeout_seconds", *rank,
      communicator_->host(*rank));
  std::array<std::byte, 1> room{};
  communicator_->receive(room, *rank, kLateTag, {.timeout = kStopped}).wait(stop);
}

}  // namespace distdl::parallel::server
