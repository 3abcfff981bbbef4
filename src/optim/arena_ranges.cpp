// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cassert>

#include <distdl/optim/arena_ranges.hpp>

namespace distdl::optim {

std::vector<kernels::ArenaRange> ranges_of(
    const tensor::ArenaLayout& layout, tensor::Role role,
    const std::function<kernels::GroupOptions(const tensor::TensorView&)>& treat) {
  std::vector<kernels::ArenaRange> ranges;
  bool follows = false;  // the tensor before is the end of the last range
  for (const auto& tensor : layout.tensors()) {
    if (tensor.role != role) {
      follows = false;
      continue;
    }
    const kernels::GroupOptions options = treat(tensor);
    if (follows && options == ranges.back().options && !options.adapts)
      ranges.back().count = tensor.offset + tensor.count - ranges.back().offset;
    else
      ranges.push_back({tensor.offset, tensor.count, options});
    follows = true;
  }
  return ranges;
}

std::vector<kernels::ArenaRange> ranges_of(const tensor::ArenaLayout& layout, tensor::Role role) {
  return ranges_of(layout, role, [](const tensor::TensorView&) { return kernels::GroupOptions{}; });
}

std::vector<kernels::ArenaRange> ranges_by_dimensions(const tensor::ArenaLayout& layout, const Options& options,
                                                      bool adapts) {
  return ranges_of(layout, tensor::Role::parameter, [&](const tensor::TensorView& tensor) {
    const bool several = tensor.shape.size() > 1;
    return kernels::GroupOptions{several || options.decay_one_dimensional, several && adapts};
  });
}

Elements common(const Elements& one, const Elements& other) {
  const std::size_t first = std::max(one.first, other.first);
  return {first, std::max(first, std::min(one.end, other.end))};
}

std::span<const kernels::ArenaRange> CutRanges::within(const Elements& elements, std::size_t origin) {
  cut_.clear();
  for (const auto& [offset, count, options] : ranges_) {
    const Elements part = common({offset, offset + count}, elements);
    if (part.count() == 0) continue;
    assert(!options.adapts || part.count() == count);
    cut_.push_back({part.first - origin, part.count(), options});
  }
  return cut_;
}

}  // namespace distdl::optim
