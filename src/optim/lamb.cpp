// SPDX-License-Identifier: Apache-2.0
#include <distdl/optim/adam_step.hpp>
#include <distdl/optim/stretches.hpp>

namespace distdl::optim {
namespace {
class Lamb final : public Rule {
 public:
  Lamb(const Options& options, const tensor::ArenaLayout& layout, kernels::Backend& backend)
      : options_(options), backend_(backend), stretches_(stretches_by_dimensions(layout, options, true)) {}

  std::vector<std::string> moments() const override { return {"first_moment", "second_moment"}; }

  void apply(const Arenas& arenas, const Now& now) override {
    backend_.lamb(adam_step(options_, now), arenas.parameters, arenas.moments[0], arenas.moments[1], arenas.gradients,
                  stretches_);
  }

 private:
  Options options_;
  kernels::Backend& backend_;
  std::vector<kernels::Stretch> stretches_;
};
}  // namespace

std::unique_ptr<Rule> make_lamb(const Options& options, const tensor::ArenaLayout& layout, kernels::Backend& backend) {
  return std::make_unique<Lamb>(options, layout, backend);
}

}  // namespace distdl::optim
