// SPDX-License-Identifier: Apache-2.0
// The table of optimizers.
#include <algorithm>
#include <cmath>

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

/// Of AdamW or LAMB.
template <class Step>
Step adam_step(const Options& options, const Now& now) {
  const auto correction = [&](double beta) {
    return static_cast<float>(1 / (1 - std::pow(beta, static_cast<double>(now.update))));
  };
  return {{.learning_rate = now.rate,
           .beta1 = static_cast<float>(options.beta1),
           .rest1 = static_cast<float>(1 - options.beta1),
           .beta2 = static_cast<float>(options.beta2),
           .rest2 = static_cast<float>(1 - options.beta2),
           .correction1 = correction(options.beta1),
           .correction2 = correction(options.beta2),
           .epsilon = static_cast<float>(options.epsilon),
           .weight_decay = static_cast<float>(options.weight_decay),
           .gradient_scale = now.gradient_scale}};
}

/// Calls call(parameter, moments..., gradient) for element i.
template <class Step, class Call>
decltype(auto) with_element(const Arenas& arenas, std::size_t i, const Call& call) {
  float& parameter = arenas.parameters[i];
  float* const first = arenas.moments[0] + (i - arenas.first);
  if constexpr (Step::kMoments == 1)
    return call(parameter, *first, arenas.gradients[i]);
  else
    return call(parameter, *first, arenas.moments[1][i - arenas.first], arenas.gradients[i]);
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
  }
  void apply(const Arenas& arenas, const Elements& elements) override {
    backend_.update(step_.get(), {arenas.parameters + arenas.first, arenas.moments, arenas.gradients + arenas.first},
                    ranges_.within(elements, arenas.first));
    if constexpr (kernels::Adaptive<Step>)
      for_spread(elements, [&](const SpreadTensors::Own& own, const Elements& here) {
        Step step = step_of_group(now_, own.range.options);
        step.learning_rate = rates_[own.tensor];
        for (std::size_t i = here.first; i < here.end; ++i) with_element<Step>(arenas, i, step);
      });
  }

  void spread(std::vector<SpreadTensors::Own> tensors) override {
    spread_ = std::move(tensors);
    auto others = ranges_.whole();
    std::erase_if(others, [](const kernels::ArenaRange& range) { return range.options.adapts; });
    ranges_ = CutRanges(std::move(others));
  }
  void begin_terms(const Arenas& arenas, const Elements& elements) override {
    if constexpr (kernels::Adaptive<Step>)
      for_spread(elements, [&](const SpreadTensors::Own& own, const Elements& here) {
        const Step step = step_of_group(now_, own.range.options);
        for (std::size_t i = here.first; i < here.end; ++i)
          with_element<Step>(arenas, i, [&](auto&... element) { step.term(element...); });
      });
  }
  void list_terms(const Arenas& arenas, const Elements& elements, const kernels::GroupOptions& options,
                  std::span<double> terms) override {
    if constexpr (kernels::Adaptive<Step>) {
      const Step step = step_of_group(now_, options);
      for (std::size_t i = elements.first; i < elements.end; ++i)
        terms[i - elements.first] =
            with_element<Step>(arenas, i, [&](auto&... element) { return step.known_term(element...); });
    }
  }
  void set_rates(std::span<const double> parameters, std::span<const double> terms) override {
    rates_.resize(parameters.size());
    if constexpr (kernels::Adaptive<Step>)
      for (const auto& [range, tensor] : spread_)
        rates_[tensor] = step_of_group(now_, range.options).trusted_rate(parameters[tensor], terms[tensor]);
  }

 private:
  template <class Call>
  void for_spread(const Elements& elements, const Call& call) const {
    for (const auto& own : spread_) {
      const Elements here = common({own.range.offset, own.range.offset + own.range.count}, elements);
      if (here.count() > 0) call(own, here);
    }
  }

  StepOf step_of_;
  Options options_;
  kernels::Backend& backend_;
  CutRanges ranges_;
  kernels::DeviceValue<Step> step_;
  Step now_;
  std::vector<SpreadTensors::Own> spread_;  ///< not in ranges_
  std::vector<double> rates_;               ///< of each tensor of the whole model, where some of it is here
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
