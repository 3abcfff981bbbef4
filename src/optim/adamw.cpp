// SPDX-License-Identifier: Apache-2.0
#include <distdl/optim/adam_step.hpp>
#include <distdl/optim/stretches.hpp>

namespace distdl::optim {
namespace {
class AdamW final : public Rule {
 public:
  AdamW(const Options& options, const tensor::ArenaLayout& layout, kernels::Backend& backend)
      : options_(options), backend_(backend), stretches_(stretches_by_dimensions(layout, options, false)) {}

  std::vector<std::string> moments() const override { return {"first_moment", "second_moment"}; }

  void apply(const Arenas& arenas, const Now& now) override {
    backend_.adamw(adam_step(options_, now), arenas.parameters, arenas.moments[0], arenas.moments[1], arenas.gradients,
                   stretches_);
  }

 private:
  Options options_;
  kernels::Backend& backend_;
  std::vector<kernels::Stretch> stretches_;
};
}  // namespace

std::unique_ptr<Rule> make_adamw(const Options& options, const tensor::ArenaLayout& layout, kernels::Backend& backend) {
  return std::make_unique<AdamW>(options, layout, backend);
}

}  // namespace distdl::optim
