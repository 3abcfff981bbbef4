// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include <distdl/base/wire.hpp>

namespace distdl::observe {

/// How many values lie where, in TensorBoard's buckets: each is a tenth wider than the one before, from 1e-12 to 1e20,
/// and the same below zero (tensorflow/core/lib/histogram/histogram.cc).
class Histogram {
 public:
  /// Values that are not finite do not count.
  void add(double value);
  /// A HistogramProto, from the first bucket that has values to the last one.
  WireMessage message() const;

 private:
  double least_ = std::numeric_limits<double>::infinity(), most_ = -std::numeric_limits<double>::infinity();
  double count_ = 0, sum_ = 0, squares_ = 0;
  std::vector<double> counts_;  ///< number of values in each bucket; empty: no value yet
};

}  // namespace distdl::observe
