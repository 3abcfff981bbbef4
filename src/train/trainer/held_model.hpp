// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include <distdl/model/parts.hpp>

namespace distdl::train {

/// What a rank holds of a model.
struct HeldModel {
  model::ModelTensors whole;              ///< of all layers
  std::vector<model::LayerRange> stages;  ///< of each rank of a pipeline; one, if there is none
  std::size_t place = 0;                  ///< of this rank's among them
  model::ModelTensors tensors;            ///< of this rank's layers

  /// Where the stages begin in an arena of the whole model.
  std::vector<std::size_t> borders() const {
    std::vector<std::size_t> places;
    for (const auto& stage : stages) {
      std::size_t begin = whole.layout.size();
      for (const auto& tensor : whole.tensors)
        if (!tensor.shared && tensor.layer >= stage.first) begin = std::min(begin, tensor.view.offset);
      places.push_back(stage.first == 0 ? 0 : begin);
    }
    return places;
  }
};

}  // namespace distdl::train
