// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include <ucp/api/ucp.h>

#include <distdl/base/ids.hpp>

namespace distdl::comm {

class Connections;
class Fabric;
class Handshake;

/// What a transfer needs of a peer that has proved itself.
struct Contact {
  ucp_ep_h endpoint = nullptr;
  const Handshake& handshake;
};

/// Begins a transfer of UCX's, when its peer is proved, with the callback that `how` brings.
using Begin = std::function<ucs_status_ptr_t(const Contact& contact, ucp_request_param_t& how)>;

/// Transfers under way together. Their memory must stay until all are done or cancelled; what is left when the batch is
/// destroyed is cancelled first.
class Batch {
 public:
  explicit Batch(Connections& connections) : connections_(connections) {}
  explicit Batch(Fabric& fabric);
  ~Batch();
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;
  /// All are done, well or not: Fabric::check() tells.
  bool done() const { return open_ == 0; }
  /// Ranks that it waits for; those it receives from first.
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
    ucs_memory_type_t memory = UCS_MEMORY_TYPE_UNKNOWN;  ///< send, receive; unknown: UCX finds out
    Begin begin{};                                       ///< other
    bool queued = false;                                 ///< until the peer is proved
    void* request = nullptr;                             ///< UCX's, while under way
    ucs_status_t status = UCS_INPROGRESS;
    std::size_t received = 0;
    bool is_open() const { return status == UCS_INPROGRESS; }
  };
  static void on_sent(void* request, ucs_status_t status, void* argument);
  static void on_received(void* request, ucs_status_t status, const ucp_tag_recv_info_t* info, void* argument);
  Transfer& add(Rank peer, Kind kind);
  /// Takes what UCX returned when the transfer began.
  void begun(Transfer& transfer, ucs_status_ptr_t request);
  void finish(Transfer& transfer, ucs_status_t status, std::size_t received);

  Connections& connections_;
  std::deque<Transfer> transfers_;
  int open_ = 0;
  bool failed_ = false;  ///< some transfer is done, but not well
};

}  // namespace distdl::comm
