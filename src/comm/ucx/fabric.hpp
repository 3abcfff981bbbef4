// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <ucp/api/ucp.h>

#include <distdl/base/clock.hpp>
#include <distdl/base/ids.hpp>
#include <distdl/comm/options.hpp>
#include <distdl/comm/ucx/activities.hpp>
#include <distdl/comm/ucx/batch.hpp>
#include <distdl/comm/ucx/connections.hpp>
#include <distdl/comm/ucx/failure_detector.hpp>
#include <distdl/comm/ucx/idle.hpp>

namespace distdl::comm {

/// One rank's connections, what is under way over them, and every wait. One thread at a time uses it.
///
/// After a loss, or when an activity has failed, everything under way is cancelled and every later wait throws the same
/// at once: build a fabric of the next generation.
class Fabric {
 public:
  explicit Fabric(const Options& options);
  ~Fabric();
  Fabric(const Fabric&) = delete;
  Fabric& operator=(const Fabric&) = delete;

  /// Of this rank, for the others. That of rank 0 holds the job's secret.
  PeerAddress own_address(Rank self) { return connections_.own_address(self); }
  /// Takes the addresses of all, in rank order; opens no connection yet. Throws CommError for one of another
  /// generation.
  void connect(Rank self, std::vector<PeerAddress> addresses);
  /// After connect().
  void use(LossBoard board) { detector_.use(std::move(board)); }
  /// To be called before a barrier that ends by `deadline`. Until barrier_passed(), a rank that gives up first
  /// completes the handshakes with its partners in the barrier, for up to 1.5 seconds, so that it can send them the
  /// reason.
  void expect_barrier(Deadline deadline) { detector_.expect_barrier(deadline); }
  void barrier_passed() { detector_.expect_barrier(std::nullopt); }

  Connections& connections() { return connections_; }
  Rank rank() const { return connections_.rank(); }
  int size() const { return connections_.size(); }
  const PeerAddress& peer_address(Rank rank) const { return connections_.peer(rank).address; }
  /// Do two ranks see the same shared memory, and may they use it? See Options::shared_memory_ranks.
  bool share_memory(Rank one, Rank other) const { return connections_.share_memory(one, other); }
  /// "rank 3 (n3)".
  std::string name(Rank rank) const { return connections_.name(rank); }
  /// Transports to that peer; "not connected" while there is no endpoint.
  std::string lanes_to(Rank rank) const { return connections_.lanes_to(rank); }
  int open_endpoints() const;
  bool proved(Rank rank) const { return connections_.peer(rank).proved(); }
  /// Null until it is proved.
  const Handshake* handshake_with(Rank rank) const;
  Refused refused() const;

  // Transfers. They never wait, and throw nothing that check() does not throw.
  void send(Batch& batch, std::span<const std::byte> bytes, Rank to, const Label& label,
            ucs_memory_type_t memory = UCS_MEMORY_TYPE_UNKNOWN) {
    connections_.send(batch, bytes, to, label, memory);
  }
  void receive(Batch& batch, std::span<std::byte> bytes, Rank from, const Label& label,
               ucs_memory_type_t memory = UCS_MEMORY_TYPE_UNKNOWN) {
    connections_.receive(batch, bytes, from, label, memory);
  }
  void start(Batch& batch, Rank peer, Begin begin) { connections_.start(batch, peer, std::move(begin)); }
  /// Throws CommError if a message had another size than expected, PeerLost if a transfer broke with its connection.
  /// When all are done, the batch may be used again.
  void check(Batch& batch, const Operation& operation);
  /// Gives up what is not done; afterwards its memory is the caller's again.
  void cancel(Batch& batch) noexcept { connections_.cancel(batch); }

  // Activities. Each that was added advances in every wait until it is done, has been removed, or all have failed.
  /// Throws what the waits throw after a loss.
  void add(Activity& activity);
  void remove(Activity& activity) noexcept { activities_.remove(activity); }
  /// Added, and neither done nor failed.
  bool under_way(const Activity& activity) const { return activities_.contains(activity); }
  /// Returns when the activity is no longer under way. Throws PeerLost when any peer is lost, or when it takes longer
  /// than `timeout`; what any activity's advance() throws. Not to be called by an activity.
  void wait(Activity& activity, Clock::duration timeout);
  /// Does what can be done without waiting; true if something happened. Throws as wait().
  bool poll();
  /// Called before waits that may end without checking liveness. Polls now and then, so that ranks detect losses that
  /// do not block them.
  void poll_sometimes() {
    if (++skipped_polls_ % kPollEvery == 0 && connections_.usable() && !revoked_ && !error_) poll();
  }
  /// One of `ranks` seems to be gone. Throws PeerLost if a process has ended or another loss comes to light in a
  /// moment.
  void look_for_loss(std::span<const Rank> ranks, const Operation& operation);
  /// Options::timeout_seconds.
  Clock::duration timeout() const;
  /// Waits until the whole batch is done.
  void wait(Batch& batch, const Operation& operation, Clock::duration timeout);
  void wait(Batch& batch, const Operation& operation) { wait(batch, operation, timeout()); }

  /// See Communicator.
  void abort(const std::string& reason, ExitCode code) noexcept;
  void close();

  /// Null after a failure that left transfers behind which nothing else could end.
  ucp_worker_h worker() const { return connections_.worker(); }
  ucp_context_h context() const { return connections_.context(); }
  void count_refused_message(const std::string& what) { connections_.count_refused_message(what); }
  /// Memory that UCX may still write to: it goes after the worker.
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

  static constexpr unsigned kPollEvery = 64;

  Options options_;
  Connections connections_;
  Idle idle_;
  Activities activities_;
  FailureDetector detector_;
  bool advancing_ = false;
  unsigned skipped_polls_ = 0;
  std::optional<RankLoss> revoked_;  ///< the loss by which all failed
  std::exception_ptr error_;         ///< or the error
};

}  // namespace distdl::comm
