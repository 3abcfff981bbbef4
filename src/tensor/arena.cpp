// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cassert>
#include <utility>

#include <distdl/base/checked.hpp>
#include <distdl/tensor/arena.hpp>

namespace distdl::tensor {
namespace {
/// Elements of one row.
std::size_t row_of(const Shape& shape) {
  std::size_t row = 1;
  for (std::size_t d = 1; d < shape.size(); ++d) row *= static_cast<std::size_t>(shape[d]);
  return row;
}
}  // namespace

std::vector<Piece> pieces_of(const TensorView& view, const Box& rows) {
  if (!view.part_of)
    return {{rows, view.shape.empty() ? 0 : static_cast<std::size_t>(rows.offset[0]) * row_of(view.shape)}};
  std::vector<Piece> pieces;
  const std::int64_t first = rows.offset[0], end = first + rows.extent[0];
  std::int64_t row = 0;  // row of the view where the box begins
  for (const Box& box : view.part_of->boxes) {
    const std::int64_t from = std::max(first, row), to = std::min(end, row + box.extent[0]);
    if (from < to) {
      Piece piece{box, static_cast<std::size_t>(from) * row_of(view.shape)};
      piece.box.offset[0] += from - row;
      piece.box.extent[0] = to - from;
      pieces.push_back(std::move(piece));
    }
    row += box.extent[0];
  }
  return pieces;
}

void copy_part(const TensorView& view, std::span<const float> whole, std::span<float> part) {
  const Shape& shape = view.whole_shape();
  for (const auto& [box, offset] : pieces_of(view, tensor::whole(view.shape))) {
    const std::size_t width = row_of(box.extent);
    std::size_t column = 0;
    for (std::size_t d = 1; d < shape.size(); ++d) {
      assert(d == 1 || box.extent[d] == shape[d]);
      column = column * static_cast<std::size_t>(shape[d]) + static_cast<std::size_t>(box.offset[d]);
    }
    for (std::int64_t r = 0; r < box.extent[0]; ++r) {
      const auto from = whole.subspan(static_cast<std::size_t>(box.offset[0] + r) * row_of(shape) + column, width);
      std::ranges::copy(from, part.subspan(offset + static_cast<std::size_t>(r) * width).begin());
    }
  }
}

bool same_whole(const TensorView& one, const TensorView& other) {
  return one.part_of && other.part_of && one.part_of->name == other.part_of->name;
}

const TensorView& ArenaLayout::add(std::string name, Shape shape, Role role, std::optional<PartOf> part_of) {
  require(numbers_.emplace(name, tensors_.size()).second,
          "two tensors have the name \"{}\"; names within a model must differ", name);
  auto count = static_cast<std::size_t>(element_count(shape));
  tensors_.push_back({std::move(name), std::move(shape), role, size_, count, std::move(part_of)});
  size_ = checked_sum(size_, count + 15, "the size of a model, in numbers,") / 16 * 16;
  return tensors_.back();
}

const TensorView* ArenaLayout::find(std::string_view name) const {
  const auto found = numbers_.find(name);
  return found == numbers_.end() ? nullptr : &tensors_[found->second];
}

}  // namespace distdl::tensor
