// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <distdl/kernels/layer_spec.hpp>

namespace distdl::kernels::test {

/// One layer, or several in a row, on one input.
struct LayerCase {
  std::string name;
  std::vector<LayerSpec> layers;
  tensor::Shape input;
};

/// Small single layers, for finite differences.
std::vector<LayerCase> small_layers();
/// Layers and rows of layers of ordinary and of odd shapes, for comparing backends.
std::vector<LayerCase> all_cases();

}  // namespace distdl::kernels::test
