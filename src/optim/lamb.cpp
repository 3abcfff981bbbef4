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
        ranges_(ranges_by_dimensions(layout, options, true)),
        squares_(backend, 2 * ranges_.size()) {}

  std::vector<std::string> moments() const override { return {"first_moment", "second_moment"}; }

  /// The trust ratios need whole tensors' norms, so this is two passes: moments, then parameters.
  void apply(const Arenas& arenas, const Now& now) override {
    for (std::size_t i = 0; i < ranges_.size(); ++i) begin(i, arenas, step_for(i, now));
    const auto squares = squares_.read();
    for (std::size_t i = 0; i < ranges_.size(); ++i) {
      const auto& [offset, count, treatment] = ranges_[i];
      if (!treatment.adapts) continue;
      kernels::AdamStep step = step_for(i, now);
      step.learning_rate =
          static_cast<float>(now.rate * trust_ratio(std::sqrt(squares[2 * i]), std::sqrt(squares[2 * i + 1])));
      backend_.lamb(step, arenas.parameters + offset, arenas.moments[0] + offset, arenas.moments[1] + offset, count);
    }
  }

 private:
  kernels::AdamStep step_for(std::size_t range, const Now& now) const {
    kernels::AdamStep step = adam_step(options_, now);
    step.weight_decay = static_cast<float>(ranges_[range].treatment.decays ? options_.weight_decay : 0);
    return step;
  }

  /// The moments and norms; of a range that does not adapt, everything.
  void begin(std::size_t i, const Arenas& arenas, const kernels::AdamStep& step) {
    const auto& [offset, count, treatment] = ranges_[i];
    float *parameters = arenas.parameters + offset, *first = arenas.moments[0] + offset,
          *second = arenas.moments[1] + offset;
    const float* gradients = arenas.gradients + offset;
    if (!treatment.adapts) return backend_.adamw(step, parameters, first, second, gradients, count);
    backend_.sum_of_squares(parameters, count, squares_.at(2 * i));
    backend_.lamb_moments(step, parameters, first, second, gradients, count, squares_.at(2 * i + 1));
  }

  static double trust_ratio(double parameter_norm, double direction_norm) {
    return parameter_norm == 0 || direction_norm == 0 ? 1 : parameter_norm / direction_norm;
  }

  Options options_;
  kernels::Backend& backend_;
  std::vector<Range> ranges_;
  Sums squares_;  ///< of each range's parameters and direction
};
}  // namespace

std::unique_ptr<Rule> make_lamb(const Options& options, const tensor::ArenaLayout& layout, kernels::Backend& backend) {
  return std::make_unique<Lamb>(options, layout, backend);
}

}  // namespace distdl::optim
