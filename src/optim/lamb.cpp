// SPDX-License-Identifier: Apache-2.0
#include <distdl/optim/adam_step.hpp>
#include <distdl/optim/ranges.hpp>
#include <distdl/optim/sums.hpp>

namespace distdl::optim {
namespace {
class Lamb final : public Rule {
 public:
  Lamb(const Options& options, const tensor::ArenaLayout& layout, kernels::Backend& backend)
      : options_(options),
        backend_(backend),
        plain_(those_that(false, ranges_by_dimensions(layout, options, true))),
        adapting_(those_that(true, ranges_by_dimensions(layout, options, true))),
        stretches_(stretches_of(adapting_)),
        squares_(backend, 2 * adapting_.size()) {}

  std::vector<std::string> moments() const override { return {"first_moment", "second_moment"}; }

  /// The trust ratios need whole tensors' norms, so this is two passes: moments, then parameters.
  void apply(const Arenas& arenas, const Now& now) override {
    for (const auto& [offset, count, treatment] : plain_)
      backend_.adamw(step_for(treatment, now), arenas.parameters + offset, arenas.moments[0] + offset,
                     arenas.moments[1] + offset, arenas.gradients + offset, count);
    if (adapting_.empty()) return;
    const std::size_t tensors = adapting_.size();
    backend_.sums_of_squares(arenas.parameters, stretches_, squares_.at(0));
    backend_.lamb_moments_of_all(step_for(adapting_.front().treatment, now), arenas.parameters, arenas.moments[0],
                                 arenas.moments[1], arenas.gradients, stretches_, squares_.at(tensors));
    const auto squares = squares_.read();
    for (std::size_t i = 0; i < tensors; ++i) {
      const auto& [offset, count, treatment] = adapting_[i];
      kernels::AdamStep step = step_for(treatment, now);
      step.learning_rate =
          static_cast<float>(now.rate * trust_ratio(std::sqrt(squares[i]), std::sqrt(squares[tensors + i])));
      backend_.lamb(step, arenas.parameters + offset, arenas.moments[0] + offset, arenas.moments[1] + offset, count);
    }
  }

 private:
  /// All that adapt have the same treatment.
  kernels::AdamStep step_for(const Treatment& treatment, const Now& now) const {
    kernels::AdamStep step = adam_step(options_, now);
    step.weight_decay = static_cast<float>(treatment.decays ? options_.weight_decay : 0);
    return step;
  }

  static double trust_ratio(double parameter_norm, double direction_norm) {
    return parameter_norm == 0 || direction_norm == 0 ? 1 : parameter_norm / direction_norm;
  }

  Options options_;
  kernels::Backend& backend_;
  std::vector<Range> plain_, adapting_;
  std::vector<kernels::Stretch> stretches_;  ///< that adapt
  Sums squares_;                             ///< of their parameters, then of their directions
};
}  // namespace

std::unique_ptr<Rule> make_lamb(const Options& options, const tensor::ArenaLayout& layout, kernels::Backend& backend) {
  return std::make_unique<Lamb>(options, layout, backend);
}

}  // namespace distdl::optim
