// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <distdl/tensor/shape.hpp>

// The pickle of a state_dict, as torch.save() writes it: https://docs.python.org/3/library/pickletools.html. A pickle
// is a program; this reads the operations that build dictionaries of tensors, and calls nothing.
namespace distdl::checkpoint {

/// A tensor that a pickle describes. Its elements are a storage beside the pickle.
struct PickledTensor {
  std::string name{};
  std::string type{};         ///< class of the storage: "FloatStorage"
  std::string storage{};      ///< its key
  std::int64_t elements = 0;  ///< length of the storage
  std::int64_t offset = 0;    ///< place of the first element, like `strides` in elements
  tensor::Shape shape{}, strides{};
};

/// The tensors of the dictionary in `pickle`, or of the one in it that has a usual name ("state_dict", "model", ...).
/// Each lies within its storage. Throws std::invalid_argument with what is wrong, also for objects of other classes.
std::vector<PickledTensor> tensors_in_pickle(std::string_view pickle);

}  // namespace distdl::checkpoint
