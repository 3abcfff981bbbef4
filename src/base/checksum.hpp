// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

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

constexpr std::size_t kMacBytes = 32;
/// HMAC-SHA256 (RFC 2104) of `bytes`: kMacBytes bytes that only who has `key` can make. Throws Error if the crypto
/// library refuses.
std::string hmac_sha256(std::string_view key, std::string_view bytes);
/// Takes as long for any content, so that nobody can guess a code byte by byte.
bool equal_in_constant_time(std::string_view a, std::string_view b);

}  // namespace distdl
