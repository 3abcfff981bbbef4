// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <ucp/api/ucp.h>

#include <distdl/base/clock.hpp>
#include <distdl/base/ids.hpp>
#include <distdl/comm/options.hpp>
#include <distdl/comm/shm/node_memory.hpp>
#include <distdl/comm/ucx/activity.hpp>
#include <distdl/comm/ucx/batch.hpp>
#include <distdl/comm/ucx/control_message.hpp>
#include <distdl/comm/ucx/handshake.hpp>
#include <distdl/comm/ucx/idle.hpp>
#include <distdl/comm/ucx/peer_address.hpp>
#include <distdl/comm/ucx/ucx_handles.hpp>
#include <distdl/comm/ucx/wire_tag.hpp>

namespace distdl::comm {

/// The loss board of a node: NodeMemory's functions of these names. It works even if a rank was frozen while it held a
/// place in the queue of UCX's shared memory, which blocks all messages behind it.
struct LossBoard {
  std::function<void(const NodeLoss&)> post_loss;
  std::function<std::optional<NodeLoss>()> posted_loss;
  std::function<void(std::optional<Rank>, const Operation&)> show_wait;
  std::function<std::optional<NodeWait>(Rank)> shown_wait;
};

/// Counts of refused messages since the start. Each one is logged as a warning, up to a limit.
struct Refused {
  int handshake_messages = 0;  ///< garbage, unknown ranks, other generations, wrong proofs
  int control_messages = 0;    ///< not from a proved peer
  int messages = 0;            ///< active messages that are not from a proved peer, or that nobody handles
};

/// One rank's UCX worker, its endpoints, and every wait. Belongs to the thread that made it.
///
/// An endpoint is opened by the first transfer to or from a peer. Transfers wait in a queue until the peer has proved
/// that it knows the job's secret, and then begin in their order.
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
  PeerAddress own_address(Rank self);
  /// Takes the addresses of all, in rank order; opens no connection yet. Throws CommError for one of another
  /// generation.
  void connect(Rank self, std::vector<PeerAddress> addresses);
  /// After connect().
  void use(LossBoard board) { board_ = std::move(board); }
  /// To be called before a barrier that ends by `deadline`. Until barrier_passed(), a rank that gives up first
  /// completes the handshakes with its partners in the barrier, for up to 1.5 seconds, so that it can send them the
  /// reason.
  void expect_barrier(Deadline deadline) { barrier_deadline_ = deadline; }
  void barrier_passed() { barrier_deadline_.reset(); }

  Rank rank() const { return self_; }
  int size() const { return static_cast<int>(peers_.size()); }
  const PeerAddress& peer_address(Rank rank) const { return peers_[rank.value].address; }
  /// Do two ranks see the same shared memory, and may they use it? See Options::shared_memory_ranks.
  bool share_memory(Rank one, Rank other) const;
  /// "rank 3 (n3)".
  std::string name(Rank rank) const;
  /// Transports to that peer; "not connected" while there is no endpoint.
  std::string lanes_to(Rank rank) const;
  int open_endpoints() const;
  bool proved(Rank rank) const { return handshake_with(rank) != nullptr; }
  const Refused& refused() const { return refused_; }

  // Transfers. They never wait, and throw nothing that check() does not throw.
  void send(Batch& batch, std::span<const std::byte> bytes, Rank to, const Label& label,
            ucs_memory_type_t memory = UCS_MEMORY_TYPE_UNKNOWN);
  void receive(Batch& batch, std::span<std::byte> bytes, Rank from, const Label& label,
               ucs_memory_type_t memory = UCS_MEMORY_TYPE_UNKNOWN);
  void start(Batch& batch, Rank peer, Begin begin);
  /// Throws CommError if a message had another size than expected, PeerLost if a transfer broke with its connection.
  /// When all are done, the batch may be used again.
  void check(Batch& batch, const Operation& operation);
  /// Gives up what is not done; afterwards its memory is the caller's again.
  void cancel(Batch& batch) noexcept;

  // Activities. Each that was added advances in every wait until it is done, has been removed, or all have failed.
  /// Throws what the waits throw after a loss.
  void add(Activity& activity);
  void remove(Activity& activity) noexcept;
  /// Added, and neither done nor failed.
  bool under_way(const Activity& activity) const;
  /// Returns when the activity is no longer under way. Throws PeerLost when any peer is lost, or when it takes longer
  /// than `timeout`; what any activity's advance() throws. Not to be called by an activity.
  void wait(Activity& activity, Clock::duration timeout);
  /// Does what can be done without waiting; true if something happened. Throws as wait().
  bool poll();
  /// Called before waits that may end without checking liveness. Polls now and then, so that ranks detect losses that
  /// do not block them.
  void poll_sometimes() {
    if (++skipped_polls_ % kPollEvery == 0 && worker_ && !closed_ && !revoked_ && !error_) poll();
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
  ucp_worker_h worker() const { return worker_.get(); }
  ucp_context_h context() const { return context_.get(); }
  void count_refused_message(const std::string& what);
  /// Memory that UCX may still write to: it goes after the worker.
  void keep(std::shared_ptr<void> memory) { kept_.push_back(std::move(memory)); }
  /// Null until it is proved.
  const Handshake* handshake_with(Rank rank) const;

 private:
  struct Peer {
    Fabric* fabric = nullptr;
    Rank rank;
    PeerAddress address;
    ucp_ep_h endpoint = nullptr;
    bool opened = false;                  ///< once; a closed endpoint is not opened again
    bool said_hello = false;              ///< its hello has come
    std::optional<Handshake> handshake;   ///< since then
    std::vector<Batch::Transfer*> queue;  ///< until it is proved
    int wrong_proofs = 0;
    bool watched = false;                  ///< its process
    std::optional<ControlMessage> answer;  ///< to the last question
    std::uint64_t looks = 0;               ///< on the board when it was asked
  };
  /// Messages from any rank.
  struct Inbox {
    std::string text;  ///< where the next one arrives
    Batch batch;
  };
  /// A connection may break because the peer gives up after a loss that is not known here yet. Certain evidence
  /// therefore takes precedence, and gets some time to arrive.
  enum class Evidence { certain, broken_connection };
  struct Loss {
    Rank rank;
    Evidence evidence;
    std::string why;
    ExitCode code;  ///< that the rank ends with, as far as it could tell
    Clock::time_point since = Clock::now();
  };

  // fabric.cpp: transfers
  std::uint64_t tag(Rank source, const Label& label) const;
  void begin_or_queue(Batch::Transfer& transfer);
  void begin(Batch::Transfer& transfer);
  void begin_send(Batch::Transfer& transfer, std::uint64_t tag);
  void begin_receive(Batch::Transfer& transfer, std::uint64_t tag, std::uint64_t mask);
  bool drain(const Batch& batch, Milliseconds limit) noexcept;
  void flush(Milliseconds limit) noexcept;

  // fabric_endpoints.cpp: endpoints and who is behind them
  static void on_peer_error(void* argument, ucp_ep_h endpoint, ucs_status_t status);
  Peer* known(Rank rank);
  void open(Peer& peer);
  void watch(Peer& peer);
  void exchange_close(Peer& peer);
  void await_handshakes(Milliseconds limit);
  void listen(Inbox& inbox, Channel channel, std::uint64_t mask, std::size_t longest);
  /// What has come; nothing if that is nothing. Then listen again.
  static std::optional<std::string> take(Inbox& inbox);
  void read_handshakes();
  void handle(const Hello& hello);
  void handle(const Proof& proof);
  void refuse_handshake(const std::string& why);
  void post_small(Peer& peer, Channel channel, std::string bytes);
  void begin_queued(Peer& peer);
  void force_close(Peer& peer) noexcept;
  void force_close_all() noexcept;

  // fabric_wait.cpp: activities and waits
  class WholeBatch;
  struct UnderWay {
    Activity* activity = nullptr;
    bool stuck = false;  ///< a transfer broke; the loss behind it will come to light
  };
  bool progress();
  void advance(Activity& activity);
  void advance_all();
  std::uint64_t steps() const;
  bool polls() const;
  const Activity* foremost() const;
  [[noreturn]] void give_up();
  void cancel_activities() noexcept;

  // fabric_loss.cpp: losses
  void check_liveness();
  std::optional<Loss> find_loss() const;
  bool matters(const Loss& loss) const;
  bool is_lost(Rank rank) const;
  bool is_certain(Rank rank) const;  ///< not only by a broken connection
  Loss mark_lost(Rank rank, Evidence evidence, const std::string& why, ExitCode code = ExitCode::peer_lost);
  void mark_ended();
  void drain_control_messages();
  void mark_process_lost(Rank rank);
  void mark_processes_lost(std::span<const Rank> ranks);
  std::string end_of(Rank rank) const;
  bool is_known_dead(const Peer& peer) const;
  Loss cause_of(const Loss& loss);
  [[noreturn]] void fail(const Operation& operation, const Loss& loss);
  void throw_if_unusable(const Operation& operation) const;
  void find_culprit(const Activity& activity, Clock::duration waited, Clock::duration timeout);
  std::vector<Rank> ask(const std::vector<Rank>& suspects, const Activity& activity, const Deadline& deadline);
  std::string silence_of(const std::vector<Rank>& silent) const;
  const std::vector<Rank>& awaited(const Activity& activity);
  std::vector<Rank> lost_ranks(Rank cause) const;

  // fabric_control.cpp: control messages
  void read_control_messages();
  std::optional<ControlMessage> open_control_message(std::string_view sealed);
  void handle(const ControlMessage& control_message);
  void answer(Rank asking);
  void read_answer_on_board(Peer& peer);
  void tell(Peer& peer, const ControlMessage& control_message);
  void shake_hands_with_partners();
  void finish_handshakes();
  void tell_all(Rank subject, const std::string& why, ExitCode code) noexcept;

  Options options_;
  PeerAddress own_address_;
  std::string secret_;
  std::vector<std::shared_ptr<void>> kept_;
  UcxContext context_;
  UcxWorker worker_;
  Idle idle_;
  Rank self_;
  std::vector<Peer> peers_;
  LossBoard board_;
  Refused refused_;
  std::vector<void*> closing_;  ///< requests of endpoints being closed

  std::vector<UnderWay> activities_;
  std::vector<Rank> awaited_now_;  ///< at some look; kept for its memory
  bool advancing_ = false;
  Activity* waiting_ = nullptr;
  static constexpr unsigned kPollEvery = 64;
  unsigned skipped_polls_ = 0;
  std::vector<Loss> losses_;     ///< in the order in which they came to light
  std::vector<Rank> ended_;      ///< processes that ended, of ranks without an endpoint
  std::optional<Loss> revoked_;  ///< the loss by which all failed
  std::exception_ptr error_;     ///< or the error
  bool closing_down_ = false;    ///< in close(): a peer whose close has come may go
  bool closed_ = false;          ///< by close() or abort()
  std::optional<Deadline> barrier_deadline_;
  bool told_ = false;  ///< the others know why this rank gives up

  std::deque<std::string> sent_text_;  ///< small messages under way
  Batch outbox_{*this};
  Inbox handshake_messages_{{}, Batch(*this)};
  Inbox control_messages_{{}, Batch(*this)};
  Batch closes_{*this};
};

}  // namespace distdl::comm
