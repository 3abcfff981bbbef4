// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

namespace distdl {

/// Philox4x32-10, a counter-based random number generator. The same key and counter give the same numbers on every
/// rank, backend and machine. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
struct Philox {
  using Block = std::array<std::uint32_t, 4>;

  static constexpr Block block(std::uint64_t key, std::uint64_t counter_high, std::uint64_t counter_low) {
    auto k0 = static_cast<std::uint32_t>(key), k1 = static_cast<std::uint32_t>(key >> 32);
    Block c{static_cast<std::uint32_t>(counter_low), static_cast<std::uint32_t>(counter_low >> 32),
            static_cast<std::uint32_t>(counter_high), static_cast<std::uint32_t>(counter_high >> 32)};
    for (int round = 0; round < 10; ++round) {
      std::uint64_t p0 = std::uint64_t{0xD2511F53u} * c[0], p1 = std::uint64_t{0xCD9E8D57u} * c[2];
      c = {static_cast<std::uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<std::uint32_t>(p1),
           static_cast<std::uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<std::uint32_t>(p0)};
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    return c;
  }

  /// A uniform number in [0, 1) with 24 random bits.
  static constexpr float uniform(std::uint32_t bits) { return static_cast<float>(bits >> 8) * 0x1p-24f; }
};

}  // namespace distdl
