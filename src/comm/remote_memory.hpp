// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include <distdl/base/ids.hpp>
#include <distdl/comm/request.hpp>

namespace distdl::comm {

/// Memory of each rank that the other ranks access by one-sided puts and gets. Communicator::expose() creates it. The
/// target rank only has to be in some wait now and then. It must be destroyed before its communicator, and after all
/// ranks have stopped using it (use a barrier). Offsets and sizes are in bytes. Throws ConfigError for bytes outside.
class RemoteMemory {
 public:
  struct Impl;
  explicit RemoteMemory(std::unique_ptr<Impl> impl);
  RemoteMemory(RemoteMemory&&) noexcept;
  RemoteMemory& operator=(RemoteMemory&&) noexcept;
  ~RemoteMemory();

  /// Bytes that a rank exposes.
  std::size_t size_of(Rank rank) const;
  /// When the request is done, `bytes` may be reused, but the data may not have arrived. Call flush() before you notify
  /// the other rank.
  Request put(std::span<const std::byte> bytes, Rank to, std::size_t offset);
  /// When the request is done, the bytes have arrived.
  Request get(std::span<std::byte> room, Rank from, std::size_t offset);
  /// When the request is done, all earlier puts to `peer` have reached its memory.
  Request flush(Rank peer);

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace distdl::comm
