// SPDX-License-Identifier: Apache-2.0
#include <limits>
#include <span>

#include <distdl/train/trainer/trust_ratios.hpp>

namespace distdl::train {
namespace {
/// Calls call(arenas, elements) for these elements, slice by slice of the shard.
template <class Call>
void for_slices(const TrainingState& state, const float* gradients, const optim::Elements& elements, const Call& call) {
  if (state.shard.empty()) return call(state.arenas(gradients), elements);
  for (std::size_t part = 0; part < state.shard.size(); ++part)
    if (const auto here = optim::common(elements, state.shard[part]); here.count() > 0)
      call(state.arenas(gradients, part), here);
}

/// Of a rule.
class RuleTerms final : public parallel::Terms {
 public:
  RuleTerms(optim::Rule& rule, const TrainingState& state, const float* gradients)
      : rule_(rule), state_(state), gradients_(gradients) {}
  void list(const kernels::ArenaRange& range, std::span<double> terms) override {
    const optim::Elements all{range.offset, range.offset + range.count};
    for_slices(state_, gradients_, all, [&](const optim::Arenas& arenas, const optim::Elements& here) {
      rule_.list_terms(arenas, here, range.options, terms.subspan(here.first - all.first, here.count()));
    });
  }

 private:
  optim::Rule& rule_;
  const TrainingState& state_;
  const float* gradients_;
};
}  // namespace

TrustRatios::TrustRatios(const optim::Options& options, const HeldModel& held,
                         const std::vector<parallel::HeldElements>& told, comm::Communicator& ranks,
                         kernels::Backend& backend, optim::Rule& rule)
    : backend_(backend),
      rule_(rule),
      tensors_(optim::spread_tensors(held.whole.layout, held.tensors.layout, options)),
      pieces_(tensors_.whole, told, ranks) {
  rule_.spread(tensors_.own);
}

void TrustRatios::operator()(const TrainingState& state, const float* gradients) {
  const optim::Elements all{0, std::numeric_limits<std::size_t>::max()};
  for_slices(state, gradients, all,
             [&](const optim::Arenas& arenas, const optim::Elements& here) { rule_.begin_terms(arenas, here); });
  std::vector<double> numbers(2 * pieces_.count());
  const std::span squares(numbers.data(), pieces_.count()), terms(numbers.data() + pieces_.count(), pieces_.count());
  parallel::Squares of_parameters(backend_, state.parameter_arena());
  RuleTerms of_rule(rule_, state, gradients);
  pieces_.write(of_parameters, squares);
  pieces_.write(of_rule, terms);
  pieces_.ranks().all_reduce(comm::Vector(numbers.data(), numbers.size(), comm::DataType::float64)).wait();
  rule_.set_rates(pieces_.sums(squares), pieces_.sums(terms));
}

}  // namespace distdl::train
