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
        ranges_(ranges_by_dimensions(layout, options, true)),
        squares_(backend, 2 * ranges_.size()) {}

  /// Not "momentum": the learning rate is part of it, in SGD's it is not.
  std::vector<std::string> moments() const override { return {"velocity"}; }

  void apply(const Arenas& arenas, const Now& now) override {
    for (std::size_t i = 0; i < ranges_.size(); ++i) {
      const auto& [offset, count, treatment] = ranges_[i];
      if (!treatment.adapts) continue;
      backend_.sum_of_squares(arenas.parameters + offset, count, squares_.at(2 * i));
      backend_.sum_of_squares(arenas.gradients + offset, count, squares_.at(2 * i + 1));
    }
    const auto squares = squares_.read();
    for (std::size_t i = 0; i < ranges_.size(); ++i) {
      const auto& [offset, count, treatment] = ranges_[i];
      const double ratio =
          treatment.adapts ? trust_ratio(std::sqrt(squares[2 * i]), now.gradient_scale * std::sqrt(squares[2 * i + 1]))
                           : 1;
      const kernels::LarsStep step{static_cast<float>(now.rate * ratio), static_cast<float>(options_.momentum),
                                   static_cast<float>(treatment.decays ? options_.weight_decay : 0),
                                   now.gradient_scale};
      backend_.lars(step, arenas.parameters + offset, arenas.moments[0] + offset, arenas.gradients + offset, count);
    }
  }

 private:
  double trust_ratio(double parameter_norm, double gradient_norm) const {
    if (parameter_norm == 0 || gradient_norm == 0) return 1;
    return options_.trust_coefficient * parameter_norm / (gradient_norm + options_.weight_decay * parameter_norm);
  }

  Options options_;
  kernels::Backend& backend_;
  std::vector<Range> ranges_;
  Sums squares_;  ///< of each range's parameters and gradients
};
}  // namespace

std::unique_ptr<Rule> make_lars(const Options& options, const tensor::ArenaLayout& layout, kernels::Backend& backend) {
  return std::make_unique<Lars>(options, layout, backend);
}

}  // namespace distdl::optim
