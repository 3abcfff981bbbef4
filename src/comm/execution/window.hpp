// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include <distdl/comm/ucx/fabric.hpp>

namespace distdl::comm {

/// Memory of each rank that the others put into and get from, without its taking part but for letting time pass in
/// waits. Exposing it is collective: construct, exchange the descriptions, connect(). Must go before its fabric, and
/// after all ranks have stopped using it.
class Window {
 public:
  Window(Fabric& fabric, std::span<std::byte> memory);
  ~Window();
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  /// Of this rank, for the others.
  std::string description() const;
  /// In rank order. Throws CommError for what description() did not make.
  void connect(const std::vector<std::string>& descriptions);
  /// Bytes that a rank exposes.
  std::size_t size_of(Rank rank) const { return remotes_.at(static_cast<std::size_t>(rank.value)).size; }

  // Each joins `batch` and is done like any transfer. Throw ConfigError where the bytes do not lie in the window.
  /// Done means that `bytes` may be used again, no more.
  void put(Batch& batch, std::span<const std::byte> bytes, Rank to, std::size_t offset);
  /// Done means that the bytes are here.
  void get(Batch& batch, std::span<std::byte> room, Rank from, std::size_t offset);
  /// Done means that what this rank has put to `peer` before lies in its memory: now tell it.
  void flush(Batch& batch, Rank peer);

 private:
  struct Remote {
    std::uint64_t address = 0;
    std::uint64_t size = 0;
    std::string packed{};
    RemoteKey key{};  ///< unpacked at the first use
  };
  Remote& check(Rank rank, std::size_t offset, std::size_t size, const char* what);
  static ucs_status_t unpack(Remote& remote, ucp_ep_h endpoint);

  Fabric& fabric_;
  std::span<std::byte> memory_;
  ExposedMemory exposed_;
  std::vector<Remote> remotes_;
};

}  // namespace distdl::comm
