// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <exception>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <ucp/api/ucp.h>

#include <distdl/base/clock.hpp>
#include <distdl/base/ids.hpp>
#include <distdl/comm/options.hpp>
#include <distdl/comm/traffic.hpp>
#include <distdl/comm/ucx/activities.hpp>
#include <distdl/comm/ucx/batch.hpp>
#include <distdl/comm/ucx/connections.hpp>
#include <distdl/comm/ucx/failure_detector.hpp>
#include <distdl/comm/ucx/idle.hpp>

namespace distdl::comm {

/// One rank's connections, its activities, and all its waits. One thread at a time uses it.
///
/// After a loss, or when an activity has failed, everything under way is cancelled, and every later wait throws the
/// same error at once. A fabric of the next generation has to be created.
class Fabric {
 public:
  explicit Fabric(const Options& options);
  ~Fabric();
  Fabric(const Fabric&) = delete;
  Fabric& operator=(const Fabric&) = delete;

  /// The address of this rank for the others. That of rank 0 contains the job's secret.
  PeerAddress own_address(Rank self) { return connections_.own_address(self); }
  /// Stores the addresses of all ranks, in rank order, without opening connections. Throws CommError for an address of
  /// another generation.
  void connect(Rank self, std::vector<PeerAddress> addresses);
  /// Call it after connect().
  void use(LossBoard board) { detector_.use(std::move(board)); }
  /// Must be called before a barrier that ends by `deadline`. Until barrier_passed(), a rank that gives up first
  /// completes the handshakes with its partners in the barrier, which takes up to 1.5 seconds, so that it can send them
  /// the reason.
  void expect_barrier(Deadline deadline) { detector_.expect_barrier(deadline); }
  void barrier_passed() { detector_.expect_barrier(std::nullopt); }
  /// See Communicator.
  void tolerate(std::set<Rank> ranks) { detector_.tolerate(std::move(ranks)); }
  bool tolerates(Rank rank) const { return detector_.tolerates(rank); }
  bool is_lost(Rank rank) const { return detector_.is_lost(rank); }
  std::vector<Rank> tolerated_losses() const { return detector_.tolerated_losses(); }

  Connections& connections() { return connections_; }
  Rank rank() const { return connections_.rank(); }
  int size() const { return connections_.size(); }
  const PeerAddress& peer_address(Rank rank) const { return connections_.peer(rank).address; }
  /// Whether two ranks have the same shared memory and may use it, see Options::shared_memory_ranks.
  bool share_memory(Rank one, Rank other) const { return connections_.share_memory(one, other); }
  /// The name for messages, such as "rank 3 (n3)".
  std::string name(Rank rank) const { return connections_.name(rank); }
  /// The transports to a peer; "not connected" if there is no endpoint.
  std::string lanes_to(Rank rank) const { return connections_.lanes_to(rank); }
  int open_endpoints() const;
  bool proved(Rank rank) const { return connections_.peer(rank).proved(); }
  /// Null until the peer is authenticated.
  const Handshake* handshake_with(Rank rank) const;
  Refused refused() const;

  // Transfers. They never wait, and throw only what check() throws.
  void send(Batch& batch, std::span<const std::byte> bytes, Rank to, const Label& label,
            ucs_memory_type_t memory = UCS_MEMORY_TYPE_UNKNOWN) {
    connections_.send(batch, bytes, to, label, memory);
  }
  void receive(Batch& batch, std::span<std::byte> bytes, Rank from, const Label& label,
               ucs_memory_type_t memory = UCS_MEMORY_TYPE_UNKNOWN) {
    connections_.receive(batch, bytes, from, label, memory);
  }
  /// Whether UCX holds a message from a rank for which there is no receive yet.
  bool holds(Rank from, const Label& label) const { return connections_.holds(from, label); }
  void start(Batch& batch, Rank peer, Begin begin) { connections_.start(batch, peer, std::move(begin)); }
  /// Throws CommError if a message had another size than expected, and PeerLost if a transfer failed with its
  /// connection. When all transfers are done, the batch may be reused.
  void check(Batch& batch, const Operation& operation);
  /// Throws CommError: a message has another size than this rank expected.
  [[noreturn]] void refuse_size(const Operation& operation, Rank peer, std::uint64_t sent, std::size_t expected) const {
    connections_.refuse_size(operation, peer, sent, expected);
  }
  /// Cancels unfinished transfers. Afterwards the caller may reuse their memory.
  void cancel(Batch& batch) noexcept { connections_.cancel(batch); }

  /// Something without end that advances in every wait beside the activities, and returns whether it did.
  using Poller = std::function<bool()>;
  std::list<Poller>::iterator add(Poller poller) { return pollers_.insert(pollers_.end(), std::move(poller)); }
  void remove(std::list<Poller>::iterator poller) noexcept { pollers_.erase(poller); }

  // Activities. Each one advances in every wait until it is done, is removed, or all have failed.
  /// Throws as a wait does after a loss.
  void check_usable(const Activity& activity) const {
    if (revoked_ || error_ || !connections_.usable()) throw_if_unusable(activity.operation());
  }
  /// Also throws then.
  void add(Activity& activity);
  void remove(Activity& activity) noexcept { activities_.remove(activity); }
  /// Whether it was added and has neither finished nor failed.
  bool under_way(const Activity& activity) const { return activities_.contains(activity); }
  /// Returns when the activity is no longer under way. Throws PeerLost if any peer is lost, or if the wait takes longer
  /// than `timeout`; also throws the exceptions of any activity's advance(). Activities must not call it. Returns early
  /// if a stop is requested, which is seen within 10 ms; where one is possible, the wait is asleep all the time.
  void wait(Activity& activity, Clock::duration timeout, const std::stop_token& stop = {});
  /// Where this flag is set, such a wait polls first, as others do. nullptr: never.
  void poll_while(const std::atomic<bool>* flag) { polls_ = flag; }
  /// Does the work that needs no waiting. Returns true if something happened. Throws as wait() does.
  bool poll();
  /// Sleeps until something has happened, wake() was called, or so much time has passed. For a thread that serves
  /// messages. Throws as wait() does, but nobody is late for it.
  void await_messages(Clock::duration most);
  /// Any thread may call it.
  void wake() const noexcept { idle_.wake(); }
  /// Called before waits that may end without checking liveness. It polls now and then, so that ranks detect losses
  /// that do not block them.
  void poll_sometimes() {
    if (++skipped_polls_ % kPollEvery == 0 && connections_.usable() && !revoked_ && !error_) poll();
  }
  /// Called when one of `ranks` seems to be lost. Throws PeerLost if its process has ended, or if another loss is
  /// detected within a moment.
  void look_for_loss(std::span<const Rank> ranks, const Operation& operation);
  /// The timeout in Options::timeout_seconds.
  Clock::duration timeout() const;
  /// Waits until the whole batch is done.
  void wait(Batch& batch, const Operation& operation, Clock::duration timeout);
  void wait(Batch& batch, const Operation& operation) { wait(batch, operation, timeout()); }

  /// Traffic of all communicators with these connections, by the number of a Collective.
  static constexpr std::size_t kCollectives = 9;
  std::array<Traffic, kCollectives>& traffic() { return traffic_; }

  /// See Communicator.
  void abort(const std::string& reason, ExitCode code) noexcept;
  void close();

  /// Null after a failure whose transfers could be ended only by closing the worker.
  ucp_worker_h worker() const { return connections_.worker(); }
  ExposedMemory::All& exposed() { return connections_.exposed(); }
  ucp_context_h context() const { return connections_.context(); }
  void count_refused_message(const std::string& what) { connections_.count_refused_message(what); }
  /// Keeps memory to which UCX may still write until the worker is destroyed.
  void keep(std::shared_ptr<void> memory) { connections_.keep(std::move(memory)); }

 private:
  class WholeBatch;

  bool progress();
  void progress_or_pause();
  void advance(Activity& activity);
  void advance_all();
  void await_handshakes(Milliseconds limit);
  [[noreturn]] void give_up();
  [[noreturn]] void fail(const Operation& operation, const RankLoss& loss);
  void throw_if_unusable(const Operation& operation) const;

  static constexpr unsigned kPollEvery = 256;

  Options options_;
  Connections connections_;
  Idle idle_;
  Activities activities_;
  FailureDetector detector_;
  std::list<Poller> pollers_;
  bool advancing_ = false;
  const std::atomic<bool>* polls_ = nullptr;  ///< see poll_while()
  unsigned skipped_polls_ = 0;
  std::array<Traffic, kCollectives> traffic_;
  std::optional<RankLoss> revoked_;  ///< the loss because of which everything failed
  std::exception_ptr error_;         ///< the error because of which everything failed
};

}  // namespace distdl::comm
