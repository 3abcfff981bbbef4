// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <ucp/api/ucp.h>

#include <distdl/base/handles.hpp>
#include <distdl/comm/options.hpp>

namespace distdl::comm {

inline void close_context(ucp_context_h context) noexcept {
  ucp_cleanup(context);
}
inline void close_worker(ucp_worker_h worker) noexcept {
  ucp_worker_destroy(worker);
}

using UcxContext = UniqueHandle<ucp_context_h, &close_context>;
using UcxWorker = UniqueHandle<ucp_worker_h, &close_worker>;

/// Converts a UCX status to an exception: throws CommError "<call>: <UCX's text>" unless `status` is UCS_OK. All calls
/// are checked by it.
void check_ucx(ucs_status_t status, const std::string& call);
/// The text of a status, such as "Connection reset by remote peer".
std::string ucx_text(ucs_status_t status);

/// A context, and a worker for one thread, which owns it. Throws ConfigError for an interface that this host does not
/// have.
std::pair<UcxContext, UcxWorker> open_context_and_worker(const Options& options);
/// Becomes readable when something happens after ucp_worker_arm() returned UCS_OK. The worker owns it.
int event_descriptor(ucp_worker_h worker);

/// UCX's memory type of that name, such as "host" or "cuda", if this UCX can send and receive from such memory.
std::optional<ucs_memory_type_t> memory_type_of(ucp_context_h context, std::string_view name);

/// The address that a peer needs to connect. Without shared memory it is a quarter as long.
enum class AddressKind { full, network_only };
std::string address_of(ucp_worker_h worker, AddressKind kind);

/// An endpoint with UCP_ERR_HANDLING_MODE_PEER. ucp_worker_progress() calls `on_error(argument, ...)` when the peer is
/// lost.
ucp_ep_h open_endpoint(ucp_worker_h worker, const std::string& address, ucp_err_handler_cb_t on_error, void* argument);
/// Memory that peers may access as long as the object exists, and the worker with which they do.
class ExposedMemory {
 public:
  /// All of a worker. It must not go before them: UCX 1.18 still has requests of it that wait for memory which the
  /// transfers of a dead peer used.
  using All = std::vector<ExposedMemory*>;
  ExposedMemory(ucp_context_h context, All& all, std::span<std::byte> memory);
  ~ExposedMemory();
  ExposedMemory(const ExposedMemory&) = delete;
  ExposedMemory& operator=(const ExposedMemory&) = delete;
  /// The key that peers unpack. It is empty in the process of the memory.
  std::string key() const;
  /// Peers may access it no longer.
  void unmap() noexcept;

 private:
  ucp_context_h context_;
  All& all_;
  ucp_mem_h memory_ = nullptr;
};

inline void destroy_key(ucp_rkey_h key) noexcept {
  ucp_rkey_destroy(key);
}
/// Needs the worker for which it was unpacked.
using RemoteKey = UniqueHandle<ucp_rkey_h, &destroy_key>;

/// The transports of the endpoint's messages, such as "posix/memory tcp/eth0".
std::string lanes_of(ucp_ep_h endpoint);

}  // namespace distdl::comm
