// SPDX-License-Identifier: Apache-2.0
#include <distdl/base/checked.hpp>
#include <distdl/tensor/arena.hpp>

namespace distdl::tensor {

const TensorView& ArenaLayout::add(std::string name, Shape shape, Role role) {
  require(find(name) == nullptr, "two tensors have the name \"{}\"; names within a model must differ", name);
  auto count = static_cast<std::size_t>(element_count(shape));
  tensors_.push_back({std::move(name), std::move(shape), role, size_, count});
  size_ = checked_sum(size_, count + 15, "the size of a model, in numbers,") / 16 * 16;
  return tensors_.back();
}

const TensorView* ArenaLayout::find(std::string_view name) const {
  for (const auto& tensor : tensors_)
    if (tensor.name == name) return &tensor;
  return nullptr;
}

}  // namespace distdl::tensor
