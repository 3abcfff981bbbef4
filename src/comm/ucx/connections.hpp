// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
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
#include <distdl/comm/ucx/activity.hpp>
#include <distdl/comm/ucx/batch.hpp>
#include <distdl/comm/ucx/handshake.hpp>
#include <distdl/comm/ucx/peer_address.hpp>
#include <distdl/comm/ucx/ucx_handles.hpp>
#include <distdl/comm/ucx/wire_tag.hpp>

namespace distdl::comm {

/// Counts of refused messages since the start. Each one is logged as a warning, up to a limit.
struct Refused {
  int handshake_messages = 0;  ///< invalid bytes, unknown ranks, other generations, wrong proofs
  int control_messages = 0;    ///< not from an authenticated peer
  int messages = 0;            ///< active messages that are not from an authenticated peer, or have no handler
};

/// One rank's UCX worker, its endpoints, and the transfers over them. No function waits for a peer, except those with a
/// time limit.
///
/// The first transfer to or from a peer opens its endpoint. Transfers wait in a queue until the peer has proved that it
/// knows the job's secret, and then begin in order.
class Connections {
 public:
  /// Functions that are called on events of a peer.
  struct Events {
    std::function<void(Rank)> opened;                         ///< this rank opens an endpoint to the peer
    std::function<void(Rank, const std::string& why)> broke;  ///< the connection failed, or the peer cannot be reached
  };
  /// The state of another rank.
  struct Peer {
    Connections* connections = nullptr;
    Rank rank;
    PeerAddress address;
    ucp_ep_h endpoint = nullptr;
    bool opened = false;      ///< whether it was ever opened; a closed endpoint is not opened again, but by reopen()
    bool said_hello = false;  ///< whether its hello was received
    bool reopens = false;     ///< its endpoint failed, and reopen() is to open it a second time
    bool reopened = false;    ///< the second time was granted: there is no third
    std::optional<Handshake> handshake;   ///< exists from the time when this rank opened the endpoint
    std::vector<Batch::Transfer*> queue;  ///< transfers that wait until it is authenticated
    int wrong_proofs = 0;
    bool proved() const { return handshake && handshake->proved(); }
  };
  /// A posted receive for messages from any rank.
  struct Inbox {
    std::string text;  ///< memory for the next message
    Batch batch;
  };
  struct BrokenTransfer {
    Rank peer;
    std::string why;
  };

  explicit Connections(const Options& options);
  ~Connections() { shut_down(); }
  Connections(const Connections&) = delete;
  Connections& operator=(const Connections&) = delete;

  /// See Fabric.
  PeerAddress own_address(Rank self);
  void connect(Rank self, std::vector<PeerAddress> addresses, Events events);

  Rank rank() const { return self_; }
  int size() const { return static_cast<int>(peers_.size()); }
  const std::vector<Peer>& peers() const { return peers_; }
  const Peer& peer(Rank rank) const { return peers_[rank.value]; }
  /// Another rank of this world. Null if there is no such rank, and for this rank itself.
  const Peer* known(Rank rank) const;
  const PeerAddress& own() const { return own_address_; }
  bool share_memory(Rank one, Rank other) const;
  /// The name for messages, such as "rank 3 (n3)".
  std::string name(Rank rank) const;
  std::string lanes_to(Rank rank) const;
  /// False after close(), or after a failure whose transfers could be ended only by closing the worker.
  bool usable() const { return worker_ && !closed_; }
  ucp_worker_h worker() const { return worker_.get(); }
  ExposedMemory::All& exposed() { return exposed_; }
  ucp_context_h context() const { return context_.get(); }
  void keep(std::shared_ptr<void> memory) { kept_.push_back(std::move(memory)); }
  const Refused& refused() const { return refused_; }
  void count_refused_message(const std::string& what);

  /// See Fabric.
  void send(Batch& batch, std::span<const std::byte> bytes, Rank to, const Label& label, ucs_memory_type_t memory);
  void receive(Batch& batch, std::span<std::byte> bytes, Rank from, const Label& label, ucs_memory_type_t memory);
  bool holds(Rank from, const Label& label) const;
  void start(Batch& batch, Rank peer, Begin begin);
  void cancel(Batch& batch) noexcept;
  /// Returns the first transfer that failed with its connection. Throws CommError if a message had another size than
  /// expected. When all transfers are done, the batch may be reused.
  // NOLINTNEXTLINE(readability-make-member-function-const): it changes the batch
  std::optional<BrokenTransfer> check(Batch& batch, const Operation& operation);
  /// See Fabric.
  [[noreturn]] void refuse_size(const Operation& operation, Rank peer, std::uint64_t sent, std::size_t expected) const;

  /// Lets UCX progress. Returns true if it did something.
  bool progress() { return worker_ && ucp_worker_progress(worker_.get()) > 0; }
  /// Handles the handshake messages that were received. Tries once again to connect where that failed.
  void read_handshakes();
  void open(Rank rank) { open(peers_[rank.value]); }
  /// Waits until all peers whose handshake has begun, and for which `matters` returns true, are authenticated.
  void finish_handshakes(Clock::duration limit, const std::function<bool(Rank)>& matters);

  /// Receives the next message of this channel.
  void listen(Inbox& inbox, Channel channel, std::uint64_t mask, std::size_t longest);
  /// Returns a received message, or nothing. Call listen() again afterwards.
  static std::optional<std::string> take(Inbox& inbox);
  /// Sends a sealed control message to a peer if it is authenticated.
  void send_control(Rank rank, const std::string& text);
  /// Waits until the small messages and finished sends have been sent.
  void flush_small(Milliseconds limit) noexcept;
  void flush(Milliseconds limit) noexcept;

  /// Begins to exchange closes with all peers whose hello has been received or will be received.
  void begin_close();
  bool is_closing() const { return closing_down_; }
  Batch& closes() { return closes_; }
  bool awaits_close_of(Rank rank) const { return closes_.receives_from(rank); }
  /// Afterwards transfers open no endpoints. Returns false if it was already closed.
  bool close() { return !std::exchange(closed_, true); }
  void force_close(Rank rank) noexcept { force_close(peers_[rank.value]); }
  void force_close_all() noexcept;
  /// Cancels the own messages and closes all endpoints, during which events may be called. A second call does nothing.
  void shut_down() noexcept;

 private:
  std::uint64_t tag(Rank source, const Label& label) const;
  void begin_or_queue(Batch::Transfer& transfer);
  void begin_queued(Peer& peer);
  void begin(Batch::Transfer& transfer);
  void begin_send(Batch::Transfer& transfer, std::uint64_t tag);
  void begin_receive(Batch::Transfer& transfer, std::uint64_t tag, std::uint64_t mask);
  bool drain(const Batch& batch, Milliseconds limit) noexcept;

  // defined in endpoints.cpp
  static void on_peer_error(void* argument, ucp_ep_h endpoint, ucs_status_t status);
  void open(Peer& peer);
  void reopen();
  void exchange_close(Peer& peer);
  void handle(const Hello& hello);
  void handle(const Proof& proof);
  void refuse_handshake(const std::string& why);
  void post_small(Peer& peer, Channel channel, std::string bytes);
  void force_close(Peer& peer) noexcept;
  void destroy_worker() noexcept;

  Options options_;
  PeerAddress own_address_;
  std::string secret_;
  std::vector<std::shared_ptr<void>> kept_;
  UcxContext context_;
  UcxWorker worker_;
  ExposedMemory::All exposed_;
  Rank self_;
  std::vector<Peer> peers_;
  Events events_;
  Refused refused_;
  std::vector<void*> closing_;  ///< requests of endpoints that are being closed
  bool reopens_ = false;        ///< some peer's endpoint is to be opened a second time
  bool closing_down_ = false;   ///< a peer whose close was received may leave
  bool closed_ = false;

  std::deque<std::string> sent_text_;  ///< small messages under way
  Batch outbox_{*this};
  Inbox handshake_messages_{{}, Batch(*this)};
  Batch closes_{*this};
};

}  // namespace distdl::comm
