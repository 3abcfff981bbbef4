// SPDX-License-Identifier: Apache-2.0
#include <distdl/optim/adam_step.hpp>
#include <distdl/optim/ranges.hpp>

namespace distdl::optim {
namespace {
class AdamW final : public Rule {
 public:
  AdamW(const Options& options, const tensor::ArenaLayout& layout, kernels::Backend& backend)
      : options_(options), backend_(backend), ranges_(ranges_by_dimensions(layout, options, false)) {}

  std::vector<std::string> moments() const override { return {"first_moment", "second_moment"}; }

  void apply(const Arenas& arenas, const Now& now) override {
    kernels::AdamStep step = adam_step(options_, now);
    for (const auto& [offset, count, treatment] : ranges_) {
      step.weight_decay = static_cast<float>(treatment.decays ? options_.weight_decay : 0);
      backend_.adamw(step, arenas.parameters + offset, arenas.moments[0] + offset, arenas.moments[1] + offset,
                     arenas.gradients + offset, count);
    }
  }

 private:
  Options options_;
  kernels::Backend& backend_;
  std::vector<Range> ranges_;
};
}  // namespace

std::unique_ptr<Rule> make_adamw(const Options& options, const tensor::ArenaLayout& layout, kernels::Backend& backend) {
  return std::make_unique<AdamW>(options, layout, backend);
}

}  // namespace distdl::optim
