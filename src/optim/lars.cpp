// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <distdl/optim/ranges.hpp>
#include <distdl/optim/rule.hpp>
#include <distdl/optim/sums.hpp>

namespace distdl::optim {
namespace {
class Lars final : public Rule {
 public:
  Lars(const Options& options, const tensor::ArenaLayout& layout, kernels::Backend& backend)
      : options_(options),
        backend_(backend),
        plain_(those_that(false, ranges_by_dimensions(layout, options, true))),
        adapting_(those_that(true, ranges_by_dimensions(layout, options, true))),
        stretches_(stretches_of(adapting_)),
        squares_(backend, 2 * adapting_.size()) {}

  /// Not "momentum": the learning rate is part of it, in SGD's it is not.
  std::vector<std::string> moments() const override { return {"velocity"}; }

  void apply(const Arenas& arenas, const Now& now) override {
    for (const Range& range : plain_) move(range, 1, arenas, now);
    if (adapting_.empty()) return;
    const std::size_t tensors = adapting_.size();
    backend_.sums_of_squares(arenas.parameters, stretches_, squares_.at(0));
    backend_.sums_of_squares(arenas.gradients, stretches_, squares_.at(tensors));
    const auto squares = squares_.read();
    for (std::size_t i = 0; i < tensors; ++i)
      move(adapting_[i], trust_ratio(std::sqrt(squares[i]), now.gradient_scale * std::sqrt(squares[tensors + i])),
           arenas, now);
  }

 private:
  void move(const Range& range, double ratio, const Arenas& arenas, const Now& now) {
    const auto& [offset, count, treatment] = range;
    const kernels::LarsStep step{static_cast<float>(now.rate * ratio), static_cast<float>(options_.momentum),
                                 static_cast<float>(treatment.decays ? options_.weight_decay : 0), now.gradient_scale};
    backend_.lars(step, arenas.parameters + offset, arenas.moments[0] + offset, arenas.gradients + offset, count);
  }

  double trust_ratio(double parameter_norm, double gradient_norm) const {
    if (parameter_norm == 0 || gradient_norm == 0) return 1;
    return options_.trust_coefficient * parameter_norm / (gradient_norm + options_.weight_decay * parameter_norm);
  }

  Options options_;
  kernels::Backend& backend_;
  std::vector<Range> plain_, adapting_;
  std::vector<kernels::Stretch> stretches_;  ///< that adapt
  Sums squares_;                             ///< of their parameters, then of their gradients
};
}  // namespace

std::unique_ptr<Rule> make_lars(const Options& options, const tensor::ArenaLayout& layout, kernels::Backend& backend) {
  return std::make_unique<Lars>(options, layout, backend);
}

}  // namespace distdl::optim
