// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace distdl::data {

/// The order of samples as a pure function. Position p of the endless stream is in epoch p / samples, and each epoch is
/// a permutation of all samples, keyed by (seed, epoch). The only state of a data reader is therefore the position, and
/// every sample is used exactly once per epoch for any number of ranks. A call takes O(1) time without a table: a
/// Feistel network over Philox with cycle walking (Black and Rogaway, "Ciphers with arbitrary finite domains", 2002).
class Sampler {
 public:
  /// Throws ConfigError if samples < 1.
  Sampler(std::uint64_t seed, std::int64_t samples);
  std::int64_t samples() const noexcept { return samples_; }
  std::int64_t epoch(std::int64_t position) const noexcept { return position / samples_; }
  /// The sample at a position >= 0.
  std::int64_t index(std::int64_t position) const;

 private:
  std::uint64_t seed_;
  std::int64_t samples_;
  int half_bits_;
};

}  // namespace distdl::data
