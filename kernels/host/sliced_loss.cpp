// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <span>
#include <vector>

#include <distdl/base/errors.hpp>
#include <distdl/kernels/host/losses.hpp>
#include <distdl/tensor/half.hpp>

namespace distdl::kernels::host {
namespace {
/// Summary of one row of logits by a slice of the classes.
struct SliceOfRow {
  double exponentials;  ///< sum of exp(logit - largest)
  double logits;        ///< their sum
  double target;        ///< the target's logit, if it is here, else 0
  float largest;
  std::int32_t largest_at;  ///< class; the first of equal ones
};
static_assert(sizeof(SliceOfRow) % sizeof(float) == 0);

/// Summary of a whole row.
struct WholeRow {
  double exponentials = 0, logits = 0, target = 0;
  float largest = 0;
  std::int32_t largest_at = 0;
};

double sum_along_tree(std::span<const double> addends) {
  if (addends.size() == 1) return addends[0];
  const std::size_t left = std::bit_floor(addends.size() - 1);
  return sum_along_tree(addends.first(left)) + sum_along_tree(addends.subspan(left));
}

/// A slice of which all logits are -inf has no exponentials.
float shift_of(float largest) {
  return std::isinf(largest) && largest < 0 ? 0 : largest;
}

template <class T>
class SlicedCrossEntropy : public SlicedLoss {
 public:
  SlicedCrossEntropy(const CrossEntropy& spec, const tensor::Shape& logits, const ClassSlice& slice)
      : spec_(spec),
        slice_(slice),
        rows_(loss_terms(spec, logits)),
        own_(logits.back()),
        rows_of_slices_(static_cast<std::size_t>(slice.count)),
        addends_(static_cast<std::size_t>(slice.count)) {}

  std::size_t summary_count() const override {
    return static_cast<std::size_t>(rows_) * sizeof(SliceOfRow) / sizeof(float);
  }

  void summarize(const void* logits, const void* targets, float* summary) override {
    for (std::int64_t n = 0; n < rows_; ++n) {
      const std::int32_t label = static_cast<const std::int32_t*>(targets)[n];
      SliceOfRow row{};
      if (spec_.ignore != label) row = summary_of(static_cast<const T*>(logits) + n * own_, label);
      std::memcpy(summary + at(n), &row, sizeof row);
    }
  }

  void forward_backward(const void* logits, const void* targets, const float* summaries, float scale, void* gradient,
                        float* totals) override {
    const auto* const labels = static_cast<const std::int32_t*>(targets);
    double loss = 0;
    std::int64_t correct = 0, counted = 0;
    for (std::int64_t n = 0; n < rows_; ++n) {
      T* const to = gradient ? static_cast<T*>(gradient) + n * own_ : nullptr;
      if (spec_.ignore == labels[n]) {
        if (to) std::fill_n(to, own_, T(0.0f));
        continue;
      }
      require(0 <= labels[n] && labels[n] < slice_.all,
              "row {} of the microbatch has label {}, but the model has {} classes", n, labels[n], slice_.all);
      const WholeRow row = whole_row(summaries, n);
      loss += loss_of(row);
      ++counted;
      if (row.largest_at == labels[n]) ++correct;
      if (to) write_gradient(static_cast<const T*>(logits) + n * own_, row, labels[n], scale, to);
    }
    totals[0] = static_cast<float>(loss);
    totals[1] = static_cast<float>(correct);
    totals[2] = static_cast<float>(counted);
  }

 private:
  static std::size_t at(std::int64_t row) { return static_cast<std::size_t>(row) * sizeof(SliceOfRow) / sizeof(float); }

  SliceOfRow summary_of(const T* row, std::int32_t label) const {
    const T* const largest = std::max_element(row, row + own_);
    SliceOfRow summary{0, 0, 0, *largest, static_cast<std::int32_t>(slice_.first + (largest - row))};
    const float shift = shift_of(summary.largest);
    for (std::int64_t c = 0; c < own_; ++c) {
      const float logit = row[c];
      summary.exponentials += std::exp(logit - shift);
      summary.logits += logit;
    }
    const std::int64_t place = label - slice_.first;
    if (0 <= place && place < own_) summary.target = row[place];
    return summary;
  }

  WholeRow whole_row(const float* summaries, std::int64_t n) {
    for (std::size_t s = 0; s < addends_.size(); ++s)
      std::memcpy(&rows_of_slices_[s], summaries + s * summary_count() + at(n), sizeof(SliceOfRow));
    const auto largest =
        std::ranges::max_element(rows_of_slices_, {}, &SliceOfRow::largest);  // the first of equal ones
    WholeRow whole{.largest = largest->largest, .largest_at = largest->largest_at};
    whole.exponentials = sum([&](const SliceOfRow& row) {
      return row.exponentials == 0 ? 0 : row.exponentials * std::exp(double{shift_of(row.largest)} - whole.largest);
    });
    whole.logits = sum([](const SliceOfRow& row) { return row.logits; });
    whole.target = sum([](const SliceOfRow& row) { return row.target; });
    return whole;
  }

  template <class Value>
  double sum(const Value& value) {
    std::ranges::transform(rows_of_slices_, addends_.begin(), value);
    return sum_along_tree(addends_);
  }

  double loss_of(const WholeRow& row) const {
    const double smoothing = spec_.smoothing;
    // Without smoothing a logit that is infinite must not matter where it is not the label's.
    const double even = smoothing > 0 ? smoothing * row.logits / static_cast<double>(slice_.all) : 0;
    return std::log(row.exponentials) + row.largest - (1 - smoothing) * row.target - even;
  }

  void write_gradient(const T* logits, const WholeRow& row, std::int32_t label, float scale, T* to) const {
    const double even = double{spec_.smoothing} / static_cast<double>(slice_.all), there = 1 - double{spec_.smoothing};
    const double share = 1 / row.exponentials;
    const std::int64_t place = label - slice_.first;
    for (std::int64_t c = 0; c < own_; ++c) {
      const double probability = std::exp(static_cast<float>(logits[c]) - row.largest) * share;
      to[c] = static_cast<float>((probability - even - (c == place ? there : 0.0)) * scale);
    }
  }

  CrossEntropy spec_;
  ClassSlice slice_;
  std::int64_t rows_, own_;  ///< own: classes
  std::vector<SliceOfRow> rows_of_slices_;
  std::vector<double> addends_;
};
}  // namespace

std::unique_ptr<SlicedLoss> make_sliced_cross_entropy(const CrossEntropy& spec, const ActivationFormat& logits,
                                                      const ClassSlice& slice) {
  require(!logits.layout && slice.first >= 0 && slice.first + logits.shape.back() <= slice.all,
          "the logits {} cannot be the classes from {} on of {}", tensor::to_string(logits.shape), slice.first,
          slice.all);
  require(!spec.is_mixed, "logits in slices of the classes do not take mixed targets");
  return tensor::with_type(logits.type, [&](auto type) -> std::unique_ptr<SlicedLoss> {
    return std::make_unique<SlicedCrossEntropy<decltype(type)>>(spec, logits.shape, slice);
  });
}

}  // namespace distdl::kernels::host
