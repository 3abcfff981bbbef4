// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace distdl {

/// CRC-32C (Castagnoli, RFC 3720) of `bytes`, continued from `previous`. Uses carry-less multiplication if the CPU has
/// it, and is then as fast as memory.
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t previous = 0);
/// Copies `from` to `to`, which must not overlap, and returns the checksum of the bytes that were read, in one pass.
/// Large copies bypass the caches.
std::uint32_t copy_with_crc32c(std::byte* to, std::span<const std::byte> from, std::uint32_t previous = 0);

/// SHA-256 in pieces. Throws Error if the crypto library fails.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;
  void update(std::span<const std::byte> bytes);
  /// Returns 64 lower-case hexadecimal digits. The object cannot be used afterwards.
  std::string hex();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace distdl
