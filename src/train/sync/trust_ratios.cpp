// SPDX-License-Identifier: Apache-2.0
#include <limits>
#include <span>
#include <vector>

#include <distdl/optim/sums.hpp>
#include <distdl/train/sync/trust_ratios.hpp>

namespace distdl::train {
namespace {
constexpr optim::Elements kEverything{0, std::numeric_limits<std::size_t>::max()};

/// Calls call(arenas, elements) for these elements, slice by slice of the shard.
template <class Call>
void for_slices(const TrainingState& state, const float* gradients, const optim::Elements& elements, const Call& call) {
  if (state.shard.empty()) return call(state.arenas(gradients), elements);
  for (std::size_t part = 0; part < state.shard.size(); ++part)
    if (const auto here = optim::common(elements, state.shard[part]); here.count() > 0)
      call(state.arenas(gradients, part), here);
}

/// The terms of an optimizer's rule.
class RuleTerms final : public parallel::Terms {
 public:
  RuleTerms(kernels::Backend& backend, optim::Rule& rule, const TrainingState& state, const float* gradients)
      : backend_(backend), rule_(rule), state_(state), gradients_(gradients) {}

  /// Adds up the terms of each range on the backend, except ranges that lie in several slices of the shard.
  void add_up(std::span<const kernels::ArenaRange> ranges, std::span<double> sums) override {
    optim::Sums found(backend_, ranges.size());
    std::vector<std::size_t> numbers;  // of those that it has added up
    for_slices(state_, gradients_, kEverything, [&](const optim::Arenas& arenas, const optim::Elements& slice) {
      std::vector<kernels::ArenaRange> within;
      const std::size_t before = numbers.size();
      for (std::size_t i = 0; i < ranges.size(); ++i) {
        if (optim::common(elements_of(ranges[i]), slice) != elements_of(ranges[i])) continue;
        within.push_back(ranges[i]);
        numbers.push_back(i);
      }
      if (!within.empty()) rule_.add_up_terms(arenas, within, found.at(before));
    });
    std::vector<bool> is_known(ranges.size(), false);
    const auto values = found.read();
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      sums[numbers[i]] = values[i];
      is_known[numbers[i]] = true;
    }
    for (std::size_t i = 0; i < ranges.size(); ++i)
      if (!is_known[i]) Terms::add_up(ranges.subspan(i, 1), sums.subspan(i, 1));
  }
  void list(const kernels::ArenaRange& range, std::span<double> terms) override {
    for_slices(state_, gradients_, elements_of(range), [&](const optim::Arenas& arenas, const optim::Elements& here) {
      rule_.list_terms(arenas, {here.first, here.count(), range.options},
                       terms.subspan(here.first - range.offset, here.count()));
    });
  }

 private:
  static optim::Elements elements_of(const kernels::ArenaRange& range) {
    return {range.offset, range.offset + range.count};
  }

  kernels::Backend& backend_;
  optim::Rule& rule_;
  const TrainingState& state_;
  const float* gradients_;
};
}  // namespace

TrustRatios::TrustRatios(const optim::Options& options, const OwnedModel& held,
                         const std::vector<parallel::OwnedElements>& told, comm::Communicator& ranks,
                         kernels::Backend& backend, optim::Rule& rule)
    : backend_(backend),
      rule_(rule),
      tensors_(optim::spread_tensors(held.whole.layout, held.tensors.layout, options)),
      pieces_(tensors_.whole, told, ranks) {
  rule_.spread(tensors_.own);
}

void TrustRatios::operator()(const TrainingState& state, const float* gradients) {
  for_slices(state, gradients, kEverything,
             [&](const optim::Arenas& arenas, const optim::Elements& here) { rule_.begin_terms(arenas, here); });
  std::vector<double> numbers(2 * pieces_.count());
  const std::span squares(numbers.data(), pieces_.count()), terms(numbers.data() + pieces_.count(), pieces_.count());
  parallel::Squares of_parameters(backend_, state.parameter_arena());
  RuleTerms of_rule(backend_, rule_, state, gradients);
  pieces_.write(of_parameters, squares);
  pieces_.write(of_rule, terms);
  pieces_.ranks().all_reduce(comm::Vector(numbers.data(), numbers.size(), comm::DataType::float64)).wait();
  rule_.set_rates(pieces_.sums(squares), pieces_.sums(terms));
}

}  // namespace distdl::train
