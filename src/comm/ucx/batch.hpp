// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include <ucp/api/ucp.h>

#include <distdl/base/ids.hpp>
#include <distdl/base/spans.hpp>

namespace distdl::comm {

class Connections;
class Fabric;
class Handshake;

/// The connection to an authenticated peer, which a transfer needs.
struct Contact {
  ucp_ep_h endpoint = nullptr;
  const Handshake& handshake;
};

/// Begins a UCX transfer when its peer is authenticated. `how` has the callback.
using Begin = std::function<ucs_status_ptr_t(const Contact& contact, ucp_request_param_t& how)>;

/// Transfers that are under way together. Their memory must be valid until all are done or cancelled. The destructor
/// cancels unfinished transfers.
class Batch {
 public:
  explicit Batch(Connections& connections) : connections_(connections) {}
  explicit Batch(Fabric& fabric);
  ~Batch();
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;
  /// Whether all transfers have ended; Fabric::check() reports whether they succeeded.
  bool done() const { return open_ == 0; }
  /// Appends the ranks for which it waits; those from which it receives come first.
  void add_awaited(std::vector<Rank>& ranks) const;
  bool receives_from(Rank rank) const;

 private:
  friend class Connections;
  enum class Kind { send, receive, other };
  struct Transfer {  // UCX holds its address
    Batch* batch;
    Rank peer;
    Kind kind;
    std::size_t size = 0;
    void* data = nullptr;                                ///< send, receive
    std::uint64_t tag = 0;                               ///< send, receive
    ucs_memory_type_t memory = UCS_MEMORY_TYPE_UNKNOWN;  ///< send, receive; unknown: UCX detects it
    Begin begin{};                                       ///< other operations
    bool queued = false;                                 ///< until the peer is authenticated
    void* request = nullptr;                             ///< UCX's request while the transfer is under way
    ucs_status_t status = UCS_INPROGRESS;
    std::size_t received = 0;
    Span span{};  ///< span of a collective's message, for a trace; its begin is 0 where there is none
    bool is_open() const { return status == UCS_INPROGRESS; }
  };
  static void on_sent(void* request, ucs_status_t status, void* argument);
  static void on_received(void* request, ucs_status_t status, const ucp_tag_recv_info_t* info, void* argument);
  Transfer& add(Rank peer, Kind kind);
  /// Stores the value that UCX returned when the transfer began.
  void begun(Transfer& transfer, ucs_status_ptr_t request);
  void finish(Transfer& transfer, ucs_status_t status, std::size_t received);

  Connections& connections_;
  std::deque<Transfer> transfers_;
  int open_ = 0;
  bool failed_ = false;  ///< some transfer has ended with an error
};

}  // namespace distdl::comm
