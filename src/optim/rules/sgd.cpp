// SPDX-License-Identifier: Apache-2.0
#include <distdl/kernels/device_value.hpp>
#include <distdl/optim/arena_ranges.hpp>
#include <distdl/optim/rule.hpp>

namespace distdl::optim {
namespace {
class Sgd final : public Rule {
 public:
  Sgd(const Options& options, const tensor::ArenaLayout& layout, kernels::Backend& backend)
      : options_(options), backend_(backend), ranges_(ranges_of(layout, tensor::Role::parameter)), step_(backend) {}

  std::vector<std::string> moments() const override { return {"momentum"}; }

  void prepare(const Now& now) override {
    step_.set({static_cast<float>(now.rate), static_cast<float>(options_.momentum),
               static_cast<float>(options_.weight_decay), options_.nesterov, now.gradient_scale});
  }

  void apply(const Arenas& arenas) override {
    backend_.sgd(step_.get(), arenas.parameters, arenas.moments[0], arenas.gradients, ranges_);
  }

 private:
  Options options_;
  kernels::Backend& backend_;
  std::vector<kernels::ArenaRange> ranges_;
  kernels::DeviceValue<kernels::SgdStep> step_;
};
}  // namespace

std::unique_ptr<Rule> make_sgd(const Options& options, const tensor::ArenaLayout& layout, kernels::Backend& backend) {
  return std::make_unique<Sgd>(options, layout, backend);
}

}  // namespace distdl::optim
