// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include <distdl/base/ids.hpp>
#include <distdl/comm/request.hpp>

namespace distdl::comm {

/// Memory of each rank of a communicator that the others put into and get from, without its taking part but for letting
/// time pass in waits: what Communicator::expose() gives. Must go before its communicator, and after all ranks have
/// stopped using it (a barrier tells). Offsets and sizes in bytes. Throws ConfigError for bytes that lie outside.
class RemoteMemory {
 public:
  struct Impl;
  explicit RemoteMemory(std::unique_ptr<Impl> impl);
  RemoteMemory(RemoteMemory&&) noexcept;
  RemoteMemory& operator=(RemoteMemory&&) noexcept;
  ~RemoteMemory();

  /// Bytes that a rank exposes.
  std::size_t size_of(Rank rank) const;
  /// Done means that `bytes` may be used again, no more: flush before you tell the other rank.
  Request put(std::span<const std::byte> bytes, Rank to, std::size_t offset);
  /// Done means that the bytes are here.
  Request get(std::span<std::byte> room, Rank from, std::size_t offset);
  /// Done means that what this rank has put to `peer` before lies in its memory.
  Request flush(Rank peer);

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace distdl::comm
