// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include <fmt/ranges.h>

#include <distdl/base/checksum.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/data/mixture.hpp>
#include <distdl/data/sampler.hpp>

namespace distdl::data {
namespace {
constexpr std::int64_t kMostWeight = 1 << 20;
constexpr std::size_t kMostSets = 1024;

__extension__ typedef __int128 WideProduct;  // ISO C++ has none; NOLINT(modernize-use-using)

/// How many of the first `positions` positions a set with `weight` of `all` has. Below 2^93: no overflow.
std::int64_t share_of(std::int64_t positions, std::int64_t weight, std::int64_t all) {
  return static_cast<std::int64_t>(static_cast<WideProduct>(positions) * weight / all);
}
}  // namespace

Shares::Shares(std::vector<std::int64_t> weights) : weights_(std::move(weights)) {
  require(!weights_.empty() && weights_.size() <= kMostSets, "data.weights has {} numbers, but 1 to {} are expected",
          weights_.size(), kMostSets);
  for (const std::int64_t weight : weights_)
    require(weight >= 1 && weight <= kMostWeight, "data.weights has {}, but must have numbers from 1 to {}", weight,
            kMostWeight);
}

/// The first set takes its share of the stream, the second one its share of what is left, and so on.
Shares::Place Shares::at(std::int64_t position) const {
  std::int64_t left = std::accumulate(weights_.begin(), weights_.end(), std::int64_t{0});
  for (std::size_t set = 0;; ++set) {
    const std::int64_t before = share_of(position, weights_[set], left);
    if (set + 1 == weights_.size() || share_of(position + 1, weights_[set], left) > before) return {set, before};
    position -= before;
    left -= weights_[set];
  }
}

namespace {
/// A copy of the values of one sample of `from` to place `to` of a batch of `count`.
template <class Value>
void place_sample(const std::vector<Value>& from, std::size_t of, std::size_t at, std::vector<Value>& into,
                  std::size_t to, std::size_t count) {
  const std::size_t size = from.size() / of;
  into.resize(size * count);
  std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(at * size), size,
              into.begin() + static_cast<std::ptrdiff_t>(to * size));
}

class Mixture final : public Source {
 public:
  Mixture(std::vector<std::unique_ptr<Source>> sets, std::vector<std::int64_t> weights, std::uint64_t seed)
      : sets_(std::move(sets)), shares_(weights) {
    require(sets_.size() == weights.size(), "data.sets names {} data sets, but data.weights has {} numbers",
            sets_.size(), weights.size());
    constexpr std::uint64_t kApart = 0x9e3779b97f4a7c15;  // sets of one size have different orders
    constexpr std::size_t kDigits = 16;
    Sha256 sum;
    for (std::size_t i = 0; i < sets_.size(); ++i) {
      const Source &one = *sets_[i], &first = *sets_[0];
      require(one.samples() > 0, "{} has too few data for one sample", one.name());
      require(one.shape() == first.shape() && one.classes() == first.classes() && one.targets() == first.targets(),
              "{} has samples {} of {} classes or targets, but {} has {} of {}; the sets of a mixture must agree",
              one.name(), tensor::to_string(one.shape()), one.classes(), first.name(), tensor::to_string(first.shape()),
              first.classes());
      require(one.tokenizer() == first.tokenizer() && one.units() == first.units(),
              "{} was made with another tokenizer, or other columns, classes, means or deviations than {}; import both "
              "alike",
              one.name(), first.name());
      samplers_.emplace_back(seed + i * kApart, one.samples());
      samples_ += one.samples();
      const std::string about = fmt::format("{} {} ", one.digest(), weights[i]);
      sum.update(std::as_bytes(std::span(about)));
      name_ += fmt::format("{}{}", i == 0 ? "" : ", ", one.name());
    }
    digest_ = sum.hex().substr(0, kDigits);
  }
  const std::string& name() const override { return name_; }
  const tensor::Shape& shape() const override { return sets_[0]->shape(); }
  std::int64_t classes() const override { return sets_[0]->classes(); }
  std::int64_t labels_per_sample() const override { return sets_[0]->labels_per_sample(); }
  tensor::Shape targets() const override { return sets_[0]->targets(); }
  std::int64_t samples() const override { return samples_; }
  const std::string& digest() const override { return digest_; }
  std::string tokenizer() const override { return sets_[0]->tokenizer(); }
  std::string units() const override { return sets_[0]->units(); }
  void restore_units(std::span<float> predictions) const override { sets_[0]->restore_units(predictions); }
  bool has_own_order() const override { return true; }

  void read(std::span<const Pick> picks, Batch& batch) override {
    std::vector<std::vector<Pick>> own(sets_.size());
    std::vector<std::vector<std::size_t>> places(sets_.size());
    for (std::size_t i = 0; i < picks.size(); ++i) {
      const auto [set, position] = shares_.at(picks[i].epoch * samples_ + picks[i].index);
      own[set].push_back({samplers_[set].epoch(position), samplers_[set].index(position)});
      places[set].push_back(i);
    }
    for (std::size_t set = 0; set < sets_.size(); ++set) {
      if (own[set].empty()) continue;
      sets_[set]->read(own[set], part_);
      for (std::size_t k = 0; k < places[set].size(); ++k) {
        const auto put = [&](const auto& from, auto& into) {
          place_sample(from, own[set].size(), k, into, places[set][k], picks.size());
        };
        put(part_.values, batch.values);
        put(part_.tokens, batch.tokens);
        put(part_.labels, batch.labels);
        put(part_.targets, batch.targets);
      }
    }
  }

 private:
  std::vector<std::unique_ptr<Source>> sets_;
  Shares shares_;
  std::vector<Sampler> samplers_;
  std::int64_t samples_ = 0;
  std::string name_, digest_;
  Batch part_;
};
}  // namespace

std::unique_ptr<Source> mixture_of(std::vector<std::unique_ptr<Source>> sets, std::vector<std::int64_t> weights,
                                   std::uint64_t seed) {
  return std::make_unique<Mixture>(std::move(sets), std::move(weights), seed);
}

}  // namespace distdl::data
