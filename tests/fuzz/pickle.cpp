// SPDX-License-Identifier: Apache-2.0
// Any bytes as the pickle of a file of torch.save().
#include <stdexcept>

#include "target.hpp"
#include <distdl/checkpoint/exchange/pickle.hpp>

namespace {
using namespace distdl;

void read_pickle(std::string_view input) {
  std::vector<checkpoint::PickledTensor> tensors;
  try {
    tensors = checkpoint::tensors_in_pickle(input);
  } catch (const std::invalid_argument&) {
    return;
  }
  for (const auto& tensor : tensors) {
    fuzz::demand(tensor.shape.size() == tensor.strides.size(), "a tensor has a stride for each extent");
    std::int64_t last = tensor.offset;
    bool is_empty = false;
    for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
      is_empty = is_empty || tensor.shape[i] == 0;
      if (!is_empty) last += (tensor.shape[i] - 1) * tensor.strides[i];
    }
    fuzz::demand(is_empty || last < tensor.elements, "a tensor lies in its storage");
  }
}

const fuzz::Target target("pickle", &read_pickle);
}  // namespace
