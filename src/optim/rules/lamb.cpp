// SPDX-License-Identifier: Apache-2.0
#include <distdl/kernels/device_value.hpp>
#include <distdl/optim/arena_ranges.hpp>
#include <distdl/optim/rules/adam_step.hpp>

namespace distdl::optim {
namespace {
class Lamb final : public Rule {
 public:
  Lamb(const Options& options, const tensor::ArenaLayout& layout, kernels::Backend& backend)
      : options_(options), backend_(backend), ranges_(ranges_by_dimensions(layout, options, true)), step_(backend) {}

  std::vector<std::string> moments() const override { return {"first_moment", "second_moment"}; }

  void prepare(const Now& now) override { step_.set(adam_step(options_, now)); }

  void apply(const Arenas& arenas) override {
    backend_.lamb(step_.get(), arenas.parameters, arenas.moments[0], arenas.moments[1], arenas.gradients, ranges_);
  }

 private:
  Options options_;
  kernels::Backend& backend_;
  std::vector<kernels::ArenaRange> ranges_;
  kernels::DeviceValue<kernels::AdamStep> step_;
};
}  // namespace

std::unique_ptr<Rule> make_lamb(const Options& options, const tensor::ArenaLayout& layout, kernels::Backend& backend) {
  return std::make_unique<Lamb>(options, layout, backend);
}

}  // namespace distdl::optim
