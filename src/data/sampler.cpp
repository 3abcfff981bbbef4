// SPDX-License-Identifier: Apache-2.0
#include <cassert>

#include <distdl/base/errors.hpp>
#include <distdl/base/philox.hpp>
#include <distdl/data/sampler.hpp>

namespace distdl::data {
namespace {
constexpr int kRounds = 8;
constexpr std::uint64_t kSamplerStream = 0x6f72646572ull;  // "order": apart from other uses of the same seed

/// Half the bits of the smallest square domain 2^(2h) that holds all samples, so a walk takes 4 steps at most on
/// average. Not below 3: over 16 values a Feistel network prefers some orders of 4 or 5 samples (chi-square twice what
/// it should be).
int half_bits_for(std::int64_t samples) {
  int half_bits = 3;
  while ((std::int64_t{1} << (2 * half_bits)) < samples && half_bits < 31) ++half_bits;
  return half_bits;
}

std::uint64_t permute(std::uint64_t seed, std::uint64_t epoch, std::uint64_t value, int half_bits) {
  const auto mask = static_cast<std::uint32_t>((std::uint64_t{1} << half_bits) - 1);
  auto left = static_cast<std::uint32_t>(value >> half_bits), right = static_cast<std::uint32_t>(value) & mask;
  for (std::uint64_t round = 0; round < kRounds; ++round) {
    std::uint32_t mixed = Philox::block(seed ^ kSamplerStream, epoch, round << 32 | right)[0];
    std::uint32_t next = (left ^ mixed) & mask;
    left = right;
    right = next;
  }
  return std::uint64_t{left} << half_bits | right;
}
}  // namespace

Sampler::Sampler(std::uint64_t seed, std::int64_t samples)
    : seed_(seed), samples_(samples), half_bits_(half_bits_for(samples)) {
  require(samples >= 1 && samples <= std::int64_t{1} << 62,
          "cannot draw samples from a data set of {} samples; at least 1 is needed", samples);
}

std::int64_t Sampler::index(std::int64_t position) const {
  assert(position >= 0);
  auto epoch = static_cast<std::uint64_t>(position / samples_);
  auto value = static_cast<std::uint64_t>(position % samples_);
  // Cycle walking: the network permutes a larger domain, so a value outside the samples is permuted again until it is
  // inside.
  do value = permute(seed_, epoch, value, half_bits_);
  while (value >= static_cast<std::uint64_t>(samples_));
  return static_cast<std::int64_t>(value);
}

}  // namespace distdl::data
