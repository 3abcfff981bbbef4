// SPDX-License-Identifier: Apache-2.0
#include <distdl/kernels/device_value.hpp>
#include <distdl/optim/arena_ranges.hpp>
#include <distdl/optim/rule.hpp>

namespace distdl::optim {
namespace {
class Lars final : public Rule {
 public:
  Lars(const Options& options, const tensor::ArenaLayout& layout, kernels::Backend& backend)
      : options_(options), backend_(backend), ranges_(ranges_by_dimensions(layout, options, true)), step_(backend) {}

  /// Not "momentum": the learning rate is part of it, in SGD's it is not.
  std::vector<std::string> moments() const override { return {"velocity"}; }

  void prepare(const Now& now) override {
    step_.set({now.rate, static_cast<float>(options_.momentum), options_.weight_decay, now.gradient_scale,
               options_.trust_coefficient});
  }

  void apply(const Arenas& arenas) override {
    backend_.lars(step_.get(), arenas.parameters, arenas.moments[0], arenas.gradients, ranges_);
  }

 private:
  Options options_;
  kernels::Backend& backend_;
  std::vector<kernels::ArenaRange> ranges_;
  kernels::DeviceValue<kernels::LarsStep> step_;
};
}  // namespace

std::unique_ptr<Rule> make_lars(const Options& options, const tensor::ArenaLayout& layout, kernels::Backend& backend) {
  return std::make_unique<Lars>(options, layout, backend);
}

}  // namespace distdl::optim
