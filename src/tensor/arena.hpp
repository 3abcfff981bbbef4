// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <distdl/tensor/shape.hpp>

namespace distdl::tensor {

/// What the optimizer does with a tensor of the parameter arena.
enum class Role {
  parameter,  ///< its gradient arena slot holds a gradient
  statistic,  ///< a running average; its gradient arena slot holds the value observed in the batch
};

/// A named view of an arena of floats.
struct TensorView {
  std::string name;  ///< "conv1.weight"
  Shape shape;
  Role role = Role::parameter;
  std::size_t offset = 0;  ///< in elements from the start of the arena
  std::size_t count = 0;   ///< elements
};

/// Where each tensor lies in an arena: contiguous, in the order of adding, each starting on a 64-byte line (the gap is
/// zero and stays zero). Parameters, gradients and optimizer moments share one layout, so a range means the same in
/// each.
class ArenaLayout {
 public:
  /// Throws ConfigError if the name is taken.
  const TensorView& add(std::string name, Shape shape, Role role = Role::parameter);
  /// nullptr if there is none of that name.
  const TensorView* find(std::string_view name) const;
  const std::vector<TensorView>& tensors() const noexcept { return tensors_; }
  /// Elements, gaps included; a multiple of 16.
  std::size_t size() const noexcept { return size_; }

 private:
  std::vector<TensorView> tensors_;
  std::size_t size_ = 0;
};

}  // namespace distdl::tensor
