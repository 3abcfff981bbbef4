// SPDX-License-Identifier: Apache-2.0
#include <distdl/optim/stretches.hpp>

namespace distdl::optim {

std::vector<kernels::Stretch> stretches_of(const tensor::ArenaLayout& layout, tensor::Role role,
                                           const std::function<kernels::Treatment(const tensor::TensorView&)>& treat) {
  std::vector<kernels::Stretch> stretches;
  bool follows = false;  // the tensor before is the end of the last stretch
  for (const auto& tensor : layout.tensors()) {
    if (tensor.role != role) {
      follows = false;
      continue;
    }
    const kernels::Treatment treatment = treat(tensor);
    if (follows && treatment == stretches.back().treatment && !treatment.adapts)
      stretches.back().count = tensor.offset + tensor.count - stretches.back().offset;
    else
      stretches.push_back({tensor.offset, tensor.count, treatment});
    follows = true;
  }
  return stretches;
}

std::vector<kernels::Stretch> stretches_of(const tensor::ArenaLayout& layout, tensor::Role role) {
  return stretches_of(layout, role, [](const tensor::TensorView&) { return kernels::Treatment{}; });
}

std::vector<kernels::Stretch> stretches_by_dimensions(const tensor::ArenaLayout& layout, const Options& options,
                                                      bool adapts) {
  return stretches_of(layout, tensor::Role::parameter, [&](const tensor::TensorView& tensor) {
    const bool several = tensor.shape.size() > 1;
    return kernels::Treatment{several || options.decay_one_dimensional, several && adapts};
  });
}

}  // namespace distdl::optim
