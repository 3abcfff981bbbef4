// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace distdl {

/// CRC-32C (Castagnoli, RFC 3720) of `bytes`, continued from `previous`. SSE4.2 where the CPU has it.
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t previous = 0);

/// SHA-256 in pieces. Throws Error if the crypto library refuses.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;
  void update(std::span<const std::byte> bytes);
  /// 64 lower-case hexadecimal digits; the object is used up.
  std::string hex();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace distdl
