// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include <distdl/comm/ucx/fabric.hpp>

namespace distdl::comm {

/// Memory of each rank that other ranks access by put and get. The target rank takes no part, except that it must be in
/// a wait now and then. Exposing memory is collective: construct the object, exchange the descriptions, and call
/// connect(). It must be destroyed before its fabric, and after all ranks have stopped using it.
class Window {
 public:
  Window(Fabric& fabric, std::span<std::byte> memory);
  ~Window();
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  /// The description of this rank's memory for the other ranks.
  std::string description() const;
  /// The descriptions are in rank order. Throws CommError for texts that description() did not make.
  void connect(const std::vector<std::string>& descriptions);
  /// Bytes that a rank exposes.
  std::size_t size_of(Rank rank) const { return remotes_.at(static_cast<std::size_t>(rank.value)).size; }

  // Each operation is added to `batch` and finishes like a transfer. They throw ConfigError if the bytes are outside
  // the window.
  /// When a put is done, `bytes` may be reused; the data may not have arrived yet.
  void put(Batch& batch, std::span<const std::byte> bytes, Rank to, std::size_t offset);
  /// When a get is done, the bytes have arrived.
  void get(Batch& batch, std::span<std::byte> room, Rank from, std::size_t offset);
  /// When a flush is done, all earlier puts to `peer` are in its memory, so that it can be notified.
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
