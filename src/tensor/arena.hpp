// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <span>
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

/// The tensor that a view has a part of, and which part that is: boxes of one row length, whose rows follow each other.
/// A box has all dimensions after the second whole.
struct PartOf {
  std::string name;
  Shape shape;
  std::vector<Box> boxes;
};

/// A named view of an arena of floats.
struct TensorView {
  std::string name;  ///< "conv1.weight"
  Shape shape;
  Role role = Role::parameter;
  std::size_t offset = 0;              ///< in elements from the start of the arena
  std::size_t count = 0;               ///< elements
  std::optional<PartOf> part_of = {};  ///< none: it is a whole tensor

  /// Name and shape of the whole tensor.
  const std::string& whole_name() const { return part_of ? part_of->name : name; }
  const Shape& whole_shape() const { return part_of ? part_of->shape : shape; }
};

/// A box of a whole tensor, and where a view has it.
struct Piece {
  Box box;
  std::size_t offset = 0;  ///< in elements from the start of the view
};
/// The pieces of some rows of a view: of the elements [offset, offset + extent) of its first dimension in `rows`, a box
/// of the view that has its other dimensions whole.
std::vector<Piece> pieces_of(const TensorView& view, const Box& rows);
/// Copies the view's elements from its whole tensor, dense row-major, to `part`.
void copy_part(const TensorView& view, std::span<const float> whole, std::span<float> part);
/// Whether both are parts of one tensor.
bool same_whole(const TensorView& one, const TensorView& other);

/// The places of tensors in an arena. Tensors are contiguous, in the order in which they were added, and each begins on
/// a 64-byte line. The gaps are zero and stay zero. Parameters, gradients and optimizer moments share one layout, so a
/// range means the same in each of them.
class ArenaLayout {
 public:
  /// Throws ConfigError if the name is taken.
  const TensorView& add(std::string name, Shape shape, Role role = Role::parameter, std::optional<PartOf> part_of = {});
  /// Returns nullptr if there is no tensor of that name.
  const TensorView* find(std::string_view name) const;
  const std::vector<TensorView>& tensors() const noexcept { return tensors_; }
  /// Number of elements including gaps; a multiple of 16.
  std::size_t size() const noexcept { return size_; }

 private:
  std::vector<TensorView> tensors_;
  std::map<std::string, std::size_t, std::less<>> numbers_;  ///< numbers of tensors by name
  std::size_t size_ = 0;
};

}  // namespace distdl::tensor
