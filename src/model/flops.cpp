// SPDX-License-Identifier: Apache-2.0
#include <distdl/kernels/layer_flops.hpp>
#include <distdl/model/flops.hpp>

namespace distdl::model {

ModelFlops flops_of(const Description& model, std::int64_t samples) {
  ModelFlops all;
  const Wiring wiring = wire(model, samples);
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    const auto flops = kernels::flops_of(model.layers[i].spec, wiring.layers[i].input);
    all.forward += flops.forward;
    all.backward += flops.backward_weights;
    if (wiring.layers[i].from != Wiring::kSample) all.backward += flops.backward_input;
  }
  return all;
}

}  // namespace distdl::model
