// SPDX-License-Identifier: Apache-2.0
#include <distdl/optim/rule.hpp>
#include <distdl/optim/stretches.hpp>

namespace distdl::optim {
namespace {
class Sgd final : public Rule {
 public:
  Sgd(const Options& options, const tensor::ArenaLayout& layout, kernels::Backend& backend)
      : options_(options), backend_(backend), stretches_(stretches_of(layout, tensor::Role::parameter)) {}

  std::vector<std::string> moments() const override { return {"momentum"}; }

  void apply(const Arenas& arenas, const Now& now) override {
    const kernels::SgdStep step{static_cast<float>(now.rate), static_cast<float>(options_.momentum),
                                static_cast<float>(options_.weight_decay), options_.nesterov, now.gradient_scale};
    backend_.sgd(step, arenas.parameters, arenas.moments[0], arenas.gradients, stretches_);
  }

 private:
  Options options_;
  kernels::Backend& backend_;
  std::vector<kernels::Stretch> stretches_;
};
}  // namespace

std::unique_ptr<Rule> make_sgd(const Options& options, const tensor::ArenaLayout& layout, kernels::Backend& backend) {
  return std::make_unique<Sgd>(options, layout, backend);
}

}  // namespace distdl::optim
