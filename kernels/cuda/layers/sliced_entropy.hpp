// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include <distdl/kernels/cuda/layers/cross_entropy.hpp>

namespace distdl::kernels::cuda {

/// Summary of one row of logits by a slice of the classes.
struct SliceOfRow {
  RowOfLogits found;  ///< `at` is a class
  float target;       ///< the target's logit, if it is here, else 0
  float unused;
};

/// The logits of a slice of the classes.
template <class T>
struct SliceOfLogits {
  const T* logits;
  Numbers labels;               ///< limit: classes of all slices
  std::int64_t first, classes;  ///< classes of this slice
  float smoothing;
};

template <class T>
struct SummarizeRow {
  SliceOfLogits<T> slice;
  SliceOfRow* to;

  template <class Lanes>
  DISTDL_HOST_DEVICE void operator()(std::int64_t row, const Lanes& lanes) const {
    const T* from = slice.logits + row * slice.classes;
    const RowOfLogits found = lanes.reduce(
        slice.classes, RowOfLogits::none(),
        [&](RowOfLogits& state, std::int64_t c) {
          state.add(from[c], slice.first + c);
          if (slice.smoothing > 0) state.sum += from[c];
        },
        [](const RowOfLogits& a, const RowOfLogits& b) { return RowOfLogits::merged(a, b); });
    const std::int64_t place = slice.labels.data[row] - slice.first;
    const float target = 0 <= place && place < slice.classes ? static_cast<float>(from[place]) : 0.0f;
    lanes.once([&] { to[row] = {found, target, 0}; });
  }
};

/// Computes the loss of a whole row, and the gradient of a slice of its logits.
template <class T>
struct SlicedEntropyRow {
  SliceOfLogits<T> slice;
  const SliceOfRow* summaries;  ///< (slices, rows)
  std::int64_t slices, rows;
  float scale;
  T* gradient;  ///< nullptr: not needed
  RowLosses losses;

  template <class Lanes>
  DISTDL_HOST_DEVICE void operator()(std::int64_t row, const Lanes& lanes) const {
    const std::int32_t label = slice.labels.data[row];
    const std::int64_t start = row * slice.classes;
    if (slice.labels.is_ignored(label)) {
      lanes.once([&] { write(row, 0, false, false); });
      if (gradient != nullptr) lanes.each(slice.classes, [&](std::int64_t c) { gradient[start + c] = 0.0f; });
      return;
    }
    SliceOfRow whole = summaries[row];
    for (std::int64_t s = 1; s < slices; ++s) {
      const SliceOfRow& next = summaries[s * rows + row];
      whole.found = RowOfLogits::merged(whole.found, next.found);
      whole.target += next.target;
    }
    lanes.once([&] { write(row, loss_of(whole, label), whole.found.at == label, true); });
    if (gradient == nullptr) return;
    const float even = slice.smoothing / static_cast<float>(slice.labels.limit), there = even + (1 - slice.smoothing);
    const float share = 1 / whole.found.exponentials.sum;
    lanes.each(slice.classes, [&](std::int64_t c) {
      const float probability = std::exp(slice.logits[start + c] - whole.found.exponentials.largest) * share;
      gradient[start + c] = (probability - (slice.first + c == label ? there : even)) * scale;
    });
  }

 private:
  DISTDL_HOST_DEVICE void write(std::int64_t row, double loss, bool is_hit, bool is_counted) const {
    losses.loss[row] = loss;
    losses.is_hit[row] = is_hit ? 1 : 0;
    losses.is_counted[row] = is_counted ? 1 : 0;
  }

  DISTDL_HOST_DEVICE double loss_of(const SliceOfRow& whole, std::int32_t label) const {
    if (!slice.labels.is_valid(label)) return std::numeric_limits<double>::quiet_NaN();
    // Without smoothing, an infinite logit of another class must not affect the result.
    const double even = slice.smoothing > 0 ? slice.smoothing * whole.found.sum / slice.labels.limit : 0;
    return std::log(static_cast<double>(whole.found.exponentials.sum)) + whole.found.exponentials.largest -
           (1 - static_cast<double>(slice.smoothing)) * whole.target - even;
  }
};

}  // namespace distdl::kernels::cuda
