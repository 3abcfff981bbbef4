// SPDX-License-Identifier: Apache-2.0
// The table of optimizers.
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include <fmt/ranges.h>

#include <distdl/base/errors.hpp>
#include <distdl/kernels/device_value.hpp>
#include <distdl/optim/arena_ranges.hpp>
#include <distdl/optim/rule.hpp>

namespace distdl::optim {
namespace {
using Now = Rule::Now;

kernels::SgdStep sgd_step(const Options& options, const Now& now) {
  return {static_cast<float>(now.rate), static_cast<float>(options.momentum), static_cast<float>(options.weight_decay),
          options.nesterov, now.gradient_scale};
}

kernels::LarsStep lars_step(const Options& options, const Now& now) {
  return {now.rate, static_cast<float>(options.momentum), options.weight_decay, now.gradient_scale,
          options.trust_coefficient};
}

/// Returns the step of AdamW or LAMB.
template <class Step>
Step adam_step(const Options& options, const Now& now) {
  const auto correction = [](double beta, std::int64_t update) {
    return static_cast<float>(1 / (1 - std::pow(beta, static_cast<double>(update))));
  };
  return {{.learning_rate = now.rate,
           .beta1 = static_cast<float>(options.beta1),
           .rest1 = static_cast<float>(1 - options.beta1),
           .beta2 = now.holds_squares ? 1 : static_cast<float>(options.beta2),
           .rest2 = now.holds_squares ? 0 : static_cast<float>(1 - options.beta2),
           .correction1 = correction(options.beta1, now.update),
           .correction2 = correction(options.beta2, now.squares),
           .epsilon = static_cast<float>(options.epsilon),
           .weight_decay = static_cast<float>(options.weight_decay),
           .gradient_scale = now.gradient_scale}};
}

kernels::UpdateArenas arenas_from(const Arenas& arenas, std::size_t first) {
  kernels::UpdateArenas from{arenas.parameters + first, {}, arenas.gradients + first};
  for (std::size_t i = 0; i < arenas.moments.size(); ++i)
    if (arenas.moments[i] != nullptr) from.moments[i] = arenas.moments[i] + (first - arenas.first);
  return from;
}

/// A rule whose step has the numbers that `step_of` makes.
template <class Step>
class RuleOf final : public Rule {
 public:
  using StepOf = Step (*)(const Options&, const Now&);
  RuleOf(StepOf step_of, Options options, std::vector<kernels::ArenaRange> ranges, kernels::Backend& backend)
      : step_of_(step_of),
        options_(std::move(options)),
        backend_(backend),
        ranges_(std::move(ranges)),
        step_(backend) {}

  void prepare(const Now& now) override {
    now_ = step_of_(options_, now);
    step_.set(now_);
    if (terms_) terms_->set({now_});
  }
  void apply(const Arenas& arenas, const Elements& elements) override {
    backend_.update(step_.get(), arenas_from(arenas, arenas.first), ranges_.within(elements, arenas.first));
    if constexpr (kernels::Adaptive<Step>)
      for_spread(elements, [&](const SpreadTensors::Own& own, const Elements& here) {
        const auto* const known = static_cast<const kernels::KnownRate<Step>*>(known_memory_.data());
        update(known + own.tensor, arenas, here);
      });
  }

  void spread(std::vector<SpreadTensors::Own> tensors) override {
    spread_ = std::move(tensors);
    auto others = ranges_.whole();
    std::erase_if(others, [](const kernels::ArenaRange& range) { return range.options.adapts; });
    ranges_ = CutRanges(std::move(others));
    std::size_t count = 1;
    for (const auto& [range, tensor] : spread_) count = std::max(count, tensor + 1);
    known_.resize(count);
    known_memory_ = backend_.allocate(count * sizeof(known_[0]));
    terms_.emplace(backend_);
  }
  void begin_terms(const Arenas& arenas, const Elements& elements) override {
    if constexpr (kernels::Adaptive<Step>)
      for_spread(elements,
                 [&](const SpreadTensors::Own&, const Elements& here) { update(terms_->get(), arenas, here); });
  }
  void add_up_terms(const Arenas& arenas, std::span<const kernels::ArenaRange> ranges, double* sums) override {
    if constexpr (kernels::Adaptive<Step>) {
      std::vector<kernels::ArenaRange> own(ranges.begin(), ranges.end());
      for (auto& range : own) range.offset -= arenas.first;
      backend_.sums_of_terms(step_.get(), arenas_from(arenas, arenas.first), own, sums);
    }
  }
  void list_terms(const Arenas& arenas, const kernels::ArenaRange& range, std::span<double> terms) override {
    if constexpr (kernels::Adaptive<Step>)
      list_terms(arenas_from(arenas, range.offset), range, terms, std::make_index_sequence<Step::kMoments>());
  }
  void set_rates(std::span<const double> parameters, std::span<const double> terms) override {
    if constexpr (kernels::Adaptive<Step>) {
      for (const auto& [range, tensor] : spread_) {
        Step& step = known_[tensor].step = step_of_group(now_, range.options);
        step.learning_rate = step.trusted_rate(parameters[tensor], terms[tensor]);
      }
      backend_.copy_from_host(known_memory_.data(), known_.data(), known_.size() * sizeof(known_[0]));
    }
  }

 private:
  template <class Call>
  void for_spread(const Elements& elements, const Call& call) const {
    for (const auto& own : spread_) {
      const Elements here = common({own.range.offset, own.range.offset + own.range.count}, elements);
      if (here.count() > 0) call(own, here);
    }
  }
  void update(const kernels::OptimizerStep& step, const Arenas& arenas, const Elements& elements) {
    const kernels::ArenaRange all{0, elements.count()};
    backend_.update(step, arenas_from(arenas, elements.first), std::span(&all, 1));
  }
  template <std::size_t... k>
  void list_terms(const kernels::UpdateArenas& from, const kernels::ArenaRange& range, std::span<double> terms,
                  std::index_sequence<k...> /*moments*/) {
    const auto copy = [&](const float* values) {
      std::vector<float> here(range.count);
      backend_.copy_to_host(here.data(), values, range.count * sizeof(float));
      return here;
    };
    const auto parameters = copy(from.parameters), gradients = copy(from.gradients);
    const std::array moments{copy(from.moments[k])...};
    const Step step = step_of_group(now_, range.options);
    for (std::size_t i = 0; i < range.count; ++i)
      terms[i] = step.known_term(parameters[i], moments[k][i]..., gradients[i]);
  }

  StepOf step_of_;
  Options options_;
  kernels::Backend& backend_;
  CutRanges ranges_;
  kernels::DeviceValue<Step> step_;
  Step now_;
  // State of tensors of which other ranks have some elements:
  std::vector<SpreadTensors::Own> spread_;  ///< not in ranges_
  std::optional<kernels::DeviceValue<kernels::TermsOf<Step>>> terms_;
  std::vector<kernels::KnownRate<Step>> known_;  ///< known rates of each tensor of the whole model that is here in part
  tensor::Buffer known_memory_;                  ///< the same values in the backend's memory
};

enum class Decays { all, by_dimensions };

template <auto step_of, Decays decays>
std::unique_ptr<Rule> make(const Options& options, const tensor::ArenaLayout& layout, kernels::Backend& backend) {
  using Step = decltype(step_of(options, Now{}));
  auto ranges = decays == Decays::all ? ranges_of(layout, tensor::Role::parameter)
                                      : ranges_by_dimensions(layout, options, kernels::Adaptive<Step>);
  return std::make_unique<RuleOf<Step>>(step_of, options, std::move(ranges), backend);
}

const std::vector<KnownRule>& table() {
  using enum Decays;
  static const std::vector<KnownRule> rules{
      {"sgd", {"momentum"}, false, &make<&sgd_step, all>},
      {"adamw", {"first_moment", "second_moment"}, false, &make<&adam_step<kernels::AdamWStep>, by_dimensions>},
      {"lamb", {"first_moment", "second_moment"}, true, &make<&adam_step<kernels::LambStep>, by_dimensions>},
      // Not "momentum": the learning rate is part of it, in SGD's it is not.
      {"lars", {"velocity"}, true, &make<&lars_step, by_dimensions>},
  };
  return rules;
}
}  // namespace

std::span<const KnownRule> known_rules() {
  return table();
}

const KnownRule& find_rule(const std::string& name) {
  const auto& rules = table();
  const auto found = std::ranges::find(rules, name, &KnownRule::name);
  if (found != rules.end()) return *found;
  std::vector<std::string> names;
  names.reserve(rules.size());
  for (const auto& rule : rules) names.push_back(rule.name);
  throw ConfigError(fmt::format("optim.name is \"{}\", but must be one of \"{}\"", name, fmt::join(names, "\", \"")));
}

}  // namespace distdl::optim
