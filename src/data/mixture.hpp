// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <distdl/data/source.hpp>

namespace distdl::data {

/// Which set a position of an endless stream is from, and which position of the set's own stream: a pure function, by
/// whole numbers alone. Each set has its share of any piece of the stream, within one sample for each set, and its own
/// positions follow each other without a gap: a set is gone through exactly once in each of its own epochs.
class Shares {
 public:
  struct Place {
    std::size_t set = 0;
    std::int64_t position = 0;
  };
  /// Throws ConfigError unless weights are between 1 and 2^20, and there are at most 1024.
  explicit Shares(std::vector<std::int64_t> weights);
  Place at(std::int64_t position) const;

 private:
  std::vector<std::int64_t> weights_;
};

/// Samples of several sets by weight. An epoch is as many samples as all sets together have.
std::unique_ptr<Source> mixture_of(std::vector<std::unique_ptr<Source>> sets, std::vector<std::int64_t> weights,
                                   std::uint64_t seed);

}  // namespace distdl::data
