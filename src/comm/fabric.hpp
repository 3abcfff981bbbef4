// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <ucp/api/ucp.h>

#include <distdl/base/clock.hpp>
#include <distdl/base/ids.hpp>
#include <distdl/comm/idle.hpp>
#include <distdl/comm/notice.hpp>
#include <distdl/comm/options.hpp>
#include <distdl/comm/peer_card.hpp>
#include <distdl/comm/ucx_handles.hpp>
#include <distdl/comm/wire_tag.hpp>

namespace distdl::comm {

class Fabric;

/// An operation as errors name it: "all-reduce 17".
struct Operation {
  const char* name = "";
  std::uint32_t sequence = 0;
};
std::string to_string(const Operation& operation);

/// Sends and receives under way together. Their memory must stay until Fabric::wait() has returned or thrown; what is
/// left when the batch is destroyed is cancelled first.
class Batch {
 public:
  explicit Batch(Fabric& fabric) : fabric_(fabric) {}
  ~Batch();
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;
  bool done() const { return open_ == 0; }

 private:
  friend class Fabric;
  enum class Direction { send, receive };
  struct Transfer {  // UCX holds its address
    Batch* batch;
    Rank peer;
    Direction direction;
    std::size_t size;
    void* request = nullptr;  ///< UCX's, while under way
    ucs_status_t status = UCS_INPROGRESS;
    std::size_t received = 0;
  };
  static void on_sent(void* request, ucs_status_t status, void* transfer);
  static void on_received(void* request, ucs_status_t status, const ucp_tag_recv_info_t* info, void* transfer);
  void finish(Transfer& transfer, ucs_status_t status, std::size_t received);

  Fabric& fabric_;
  std::deque<Transfer> transfers_;
  int open_ = 0;
};

/// One rank's UCX worker, its endpoints to all peers, and every wait. Belongs to the thread that made it.
class Fabric {
 public:
  explicit Fabric(const Options& options);
  ~Fabric();
  Fabric(const Fabric&) = delete;
  Fabric& operator=(const Fabric&) = delete;

  /// Of this rank, for the others.
  PeerCard card() const;
  /// Opens an endpoint to each peer and greets it. Throws PeerLost naming those that do not answer within `timeout`.
  void connect(Rank self, std::vector<PeerCard> cards, Clock::duration timeout);

  Rank rank() const { return self_; }
  int size() const { return static_cast<int>(peers_.size()); }
  const PeerCard& card_of(Rank rank) const { return peers_[rank.value].card; }
  /// "rank 3 (n3)".
  std::string name(Rank rank) const;
  /// Transports to that peer.
  std::string lanes_to(Rank rank) const;

  void send(Batch& batch, std::span<const std::byte> bytes, Rank to, Channel channel, std::uint32_t sequence,
            std::uint16_t stage);
  void receive(Batch& batch, std::span<std::byte> bytes, Rank from, Channel channel, std::uint32_t sequence,
               std::uint16_t stage);
  /// Options::timeout_seconds.
  Clock::duration timeout() const;
  /// Returns when all transfers of the batch are done, which may then be used again. Throws PeerLost when any peer is
  /// lost or when the batch takes longer than `timeout`, CommError if a message had another size than expected; either
  /// way the transfers have been cancelled.
  void wait(Batch& batch, const Operation& operation, Clock::duration timeout);
  void wait(Batch& batch, const Operation& operation) { wait(batch, operation, timeout()); }

  /// See Communicator.
  void abort(const std::string& reason, ExitCode code) noexcept;
  void close();

 private:
  friend class Batch;
  struct Peer {
    Fabric* fabric = nullptr;
    Rank rank;
    PeerCard card;
    ucp_ep_h endpoint = nullptr;
    std::optional<Notice> answer;  ///< to the last question
  };
  /// A connection may break because the peer gives up after a loss that this rank has not heard of yet: what is known
  /// for certain goes before it.
  enum class Evidence { certain, broken_connection };
  struct Loss {
    Rank rank;
    Evidence evidence;
    std::string why;
    ExitCode code;  ///< that the rank ends with, as far as it could tell
  };
  struct Waiting {
    const Batch* batch = nullptr;
    const Operation* operation = nullptr;
  };

  // fabric.cpp: endpoints and transfers
  static void on_peer_error(void* peer, ucp_ep_h endpoint, ucs_status_t status);
  void open_endpoints();
  void greet(Clock::duration timeout);
  std::uint64_t tag(Channel channel, Rank source, std::uint32_t sequence, std::uint16_t stage) const;
  void cancel(Batch& batch) noexcept;
  bool drain(const Batch& batch, Milliseconds limit) noexcept;
  void flush(Milliseconds limit) noexcept;
  void force_close(Peer& peer) noexcept;
  void force_close_all() noexcept;

  // fabric_wait.cpp: waits and losses
  bool progress();
  void check_transfers(Batch& batch, const Operation& operation);
  std::optional<Loss> find_loss(const Batch& batch) const;
  bool matters(const Loss& loss, const Batch& batch) const;
  bool is_lost(Rank rank) const;
  Loss mark_lost(Rank rank, Evidence evidence, const std::string& why, ExitCode code = ExitCode::peer_lost);
  void mark_ended();
  [[noreturn]] void fail(Batch& batch, const Operation& operation, const Loss& loss);
  void find_culprit(Batch& batch, const Operation& operation, double waited, Clock::duration timeout);
  std::vector<Rank> ask(const std::vector<Rank>& suspects, const Batch& batch, const Deadline& deadline);
  std::vector<Rank> awaited(const Batch& batch) const;

  // fabric_notice.cpp: notices
  void listen();
  void read_notices();
  void handle(const Notice& notice);
  void tell(Rank rank, const Notice& notice);
  void tell_all(Rank subject, const std::string& why, ExitCode code) noexcept;

  Options options_;
  PeerCard own_card_;
  UcxContext context_;
  UcxWorker worker_;
  Idle idle_;
  Rank self_;
  std::vector<Peer> peers_;
  std::vector<void*> closing_;  ///< requests of endpoints being closed
  std::vector<Loss> losses_;    ///< in the order in which they came to light
  bool closing_down_ = false;   ///< in close(): a peer whose goodbye has come may go
  bool closed_ = false;         ///< by close() or abort()
  bool told_ = false;           ///< the others know why this rank gives up
  Waiting waiting_;

  std::string inbox_text_;             ///< where the next notice arrives
  std::deque<std::string> sent_text_;  ///< notices under way
  Batch outbox_{*this};
  Batch inbox_{*this};
};

}  // namespace distdl::comm
