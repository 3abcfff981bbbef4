// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <distdl/tensor/shape.hpp>

namespace distdl::tensor {

/// The use of a tensor of the parameter arena by the optimizer.
enum class Role {
  parameter,  ///< the gradient arena has its gradient in the same place
  statistic,  ///< a running average; the gradient arena has the value observed in the batch in the same place
  borrowed,   ///< a copy of a parameter that another rank updates and saves; see model::ModelTensor
};

/// A named view of an arena of floats.
struct TensorView {
  std::string name;  ///< "conv1.weight"
  Shape shape;
  Role role = Role::parameter;
  std::size_t offset = 0;  ///< in elements from the start of the arena
  std::size_t count = 0;   ///< elements
};

/// The places of tensors in an arena. Tensors are contiguous, in the order in which they were added, and each begins on
/// a 64-byte line. The gaps are zero and stay zero. Parameters, gradients and optimizer moments share one layout, so a
/// range means the same in each of them.
class ArenaLayout {
 public:
  /// Throws ConfigError if the name is taken.
  const TensorView& add(std::string name, Shape shape, Role role = Role::parameter);
  /// Returns nullptr if there is no tensor of that name.
  const TensorView* find(std::string_view name) const;
  const std::vector<TensorView>& tensors() const noexcept { return tensors_; }
  /// Number of elements including gaps; a multiple of 16.
  std::size_t size() const noexcept { return size_; }

 private:
  std::vector<TensorView> tensors_;
  std::size_t size_ = 0;
};

}  // namespace distdl::tensor
