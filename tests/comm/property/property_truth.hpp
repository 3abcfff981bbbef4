// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tests/comm/property/property_case.hpp"

namespace distdl::comm::property {

/// What the ranks put in and what must come out.
class Truth {
 public:
  Truth(const Case& one, const Shape& shape);

  /// Of each part of the rank's input.
  const std::vector<std::vector<std::byte>>& inputs(int rank) const { return inputs_[static_cast<std::size_t>(rank)]; }
  /// Elements of the rank's output; 0 where it has none.
  std::size_t output_count(int rank) const;
  /// "" if this is what the rank must have got.
  std::string judge(int rank, std::span<const std::byte> output) const;

 private:
  void make_inputs();
  void make_result();
  void reduce_all();
  std::vector<std::byte> expected(int rank) const;
  std::string judge_roughly(int rank, std::span<const std::byte> output) const;

  Case one_;
  Shape shape_;
  std::vector<std::vector<std::vector<std::byte>>> inputs_;  ///< [rank][part]
  std::vector<std::byte> result_;                            ///< of which each rank gets all, or a slice, or nothing
  std::vector<double> slack_;                                ///< per element of a sum in free order
  mutable std::atomic<std::uint64_t> agreed_ = 0;            ///< digest of what the first rank got
};

/// Ranks that are threads share the truths, of which each is worked out once.
class Truths {
 public:
  std::shared_ptr<const Truth> of(const Case& one, const Shape& shape);

 private:
  std::mutex mutex_;
  std::deque<std::pair<std::uint64_t, std::shared_ptr<const Truth>>> known_;  ///< by the case's seed
};

}  // namespace distdl::comm::property
