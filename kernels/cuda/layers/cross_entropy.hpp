// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include <distdl/kernels/cuda/layers/number_check.hpp>
#include <distdl/kernels/cuda/primitives/exponentials.hpp>
#include <distdl/kernels/cuda/primitives/lanes.hpp>

namespace distdl::kernels::cuda {

/// The results of one pass over a row of logits.
struct RowOfLogits {
  double sum;  ///< sum of the logits if labels are smoothed
  Exponentials exponentials;
  std::int32_t at;  ///< index of the first of the largest logits
  std::int32_t unused;

  DISTDL_HOST_DEVICE static RowOfLogits none() {
    return {0, Exponentials::none(), std::numeric_limits<std::int32_t>::max(), 0};
  }
  DISTDL_HOST_DEVICE void add(float logit, std::int64_t place) {
    if (logit > exponentials.largest || at == std::numeric_limits<std::int32_t>::max())
      at = static_cast<std::int32_t>(place);
    exponentials.add(logit);
  }
  DISTDL_HOST_DEVICE static RowOfLogits merged(const RowOfLogits& a, const RowOfLogits& b) {
    const float in_a = a.exponentials.largest, in_b = b.exponentials.largest;
    const bool is_b = in_b > in_a || (in_b == in_a && b.at < a.at);
    return {a.sum + b.sum, Exponentials::merged(a.exponentials, b.exponentials), is_b ? b.at : a.at, 0};
  }
};

/// The other class of each row, and the share of the first, see CrossEntropy::is_mixed.
struct MixedTargets {
  const std::int32_t* others = nullptr;  ///< nullptr: rows have one class
  const float* shares = nullptr;
};

/// Values of each row, (3, rows).
struct RowLosses {
  double* loss;
  double* is_hit;      ///< 1 or 0
  double* is_counted;  ///< 0: the row is ignored
};

/// Computes the loss and the gradient of a row of logits. It reads the row twice.
template <class T>
struct CrossEntropyRow {
  const T* logits;
  Numbers labels;  ///< limit: classes
  float smoothing;
  float scale;
  T* gradient;  ///< nullptr: not needed
  RowLosses losses;
  MixedTargets mixed{};

  template <class Lanes>
  DISTDL_HOST_DEVICE void operator()(std::int64_t row, const Lanes& lanes) const {
    const std::int64_t classes = labels.limit;
    const std::int32_t label = labels.data[row];
    if (labels.is_ignored(label)) {
      lanes.once([&] { write(row, 0, false, false); });
      if (gradient != nullptr) lanes.each(classes, [&](std::int64_t c) { gradient[row * classes + c] = 0.0f; });
      return;
    }
    const T* from = logits + row * classes;
    const RowOfLogits found = lanes.reduce(
        classes, RowOfLogits::none(),
        [&](RowOfLogits& state, std::int64_t c) {
          state.add(from[c], c);
          if (smoothing > 0) state.sum += from[c];
        },
        [](const RowOfLogits& a, const RowOfLogits& b) { return RowOfLogits::merged(a, b); });
    const std::int32_t other = mixed.others != nullptr ? mixed.others[row] : label;
    const float share = mixed.shares != nullptr ? mixed.shares[row] : 1;
    const bool is_hit = found.at == (share >= 0.5f ? label : other);
    lanes.once([&] { write(row, loss_of(found, from, label, other, share), is_hit, true); });
    if (gradient != nullptr) write_gradient(row, label, other, share, found.exponentials, lanes);
  }

 private:
  DISTDL_HOST_DEVICE void write(std::int64_t row, double loss, bool is_hit, bool is_counted) const {
    losses.loss[row] = loss;
    losses.is_hit[row] = is_hit ? 1 : 0;
    losses.is_counted[row] = is_counted ? 1 : 0;
  }

  DISTDL_HOST_DEVICE double loss_of(const RowOfLogits& found, const T* from, std::int32_t label, std::int32_t other,
                                    float share) const {
    if (!labels.is_valid(label) || !labels.is_valid(other)) return std::numeric_limits<double>::quiet_NaN();
    // Without smoothing, an infinite logit of another class must not affect the result.
    const double even = smoothing > 0 ? smoothing * found.sum / labels.limit : 0;
    return std::log(static_cast<double>(found.exponentials.sum)) + found.exponentials.largest -
           (1 - static_cast<double>(smoothing)) * wanted_of(from, label, other, share) - even;
  }

  DISTDL_HOST_DEVICE static double wanted_of(const T* from, std::int32_t label, std::int32_t other, float share) {
    const double own = from[label];
    return share == 1 ? own : share * own + (1 - static_cast<double>(share)) * from[other];
  }

  template <class Lanes>
  DISTDL_HOST_DEVICE void write_gradient(std::int64_t row, std::int32_t label, std::int32_t other, float share,
                                         const Exponentials& exponentials, const Lanes& lanes) const {
    const std::int64_t classes = labels.limit, start = row * classes;
    const float even = smoothing / static_cast<float>(classes), there = 1 - smoothing;
    const float inverse = 1 / exponentials.sum;
    lanes.each(classes, [&](std::int64_t c) {
      const float probability = std::exp(logits[start + c] - exponentials.largest) * inverse;
      const float part = (c == label ? share : 0) + (c == other && share != 1 ? 1 - share : 0);
      gradient[start + c] = (probability - (part == 1 ? even + there : part * there + even)) * scale;
    });
  }
};

/// Three sums over rows, see reduction.hpp: totals[0] = losses, totals[1] = hits, totals[2] = counted rows.
struct TotalLosses {
  const double* losses;  // (3, rows)
  float* totals;
  std::int64_t rows;
  DISTDL_HOST_DEVICE double operator()(std::int64_t which, std::int64_t row) const {
    return losses[which * rows + row];
  }
  DISTDL_HOST_DEVICE void finish(std::int64_t which, double sum) const { totals[which] = static_cast<float>(sum); }
};

}  // namespace distdl::kernels::cuda
