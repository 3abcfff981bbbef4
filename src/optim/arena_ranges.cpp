// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cassert>
#include <map>
#include <string>

#include <distdl/optim/arena_ranges.hpp>

namespace distdl::optim {

std::vector<kernels::ArenaRange> ranges_of(
    const tensor::ArenaLayout& layout, tensor::Role role,
    const std::function<kernels::GroupOptions(const tensor::TensorView&)>& treat) {
  std::vector<kernels::ArenaRange> ranges;
  const tensor::TensorView* before = nullptr;  // the end of the last range
  for (const auto& tensor : layout.tensors()) {
    if (tensor.role != role) {
      before = nullptr;
      continue;
    }
    const kernels::GroupOptions options = treat(tensor);
    const bool joins = before && options == ranges.back().options;
    if (joins && (!options.adapts || tensor::same_whole(*before, tensor)))
      ranges.back().count = tensor.offset + tensor.count - ranges.back().offset;
    else
      ranges.push_back({tensor.offset, tensor.count, options});
    before = &tensor;
  }
  return ranges;
}

std::vector<kernels::ArenaRange> ranges_of(const tensor::ArenaLayout& layout, tensor::Role role) {
  return ranges_of(layout, role, [](const tensor::TensorView&) { return kernels::GroupOptions{}; });
}

std::vector<kernels::ArenaRange> ranges_of_norm(const tensor::ArenaLayout& layout) {
  const auto& tensors = layout.tensors();
  if (std::ranges::none_of(tensors, [](const auto& tensor) { return tensor.part_of.has_value(); }))
    return ranges_of(layout, tensor::Role::parameter);
  std::vector<kernels::ArenaRange> ranges;
  for (const auto& tensor : tensors)
    if (tensor.role == tensor::Role::parameter) ranges.push_back({tensor.offset, tensor.count});
  return ranges;
}

std::vector<kernels::ArenaRange> ranges_by_dimensions(const tensor::ArenaLayout& layout, const Options& options,
                                                      bool adapts) {
  return ranges_of(layout, tensor::Role::parameter, [&](const tensor::TensorView& tensor) {
    const bool several = tensor.shape.size() > 1;
    return kernels::GroupOptions{several || options.decay_one_dimensional, several && adapts};
  });
}

namespace {
/// With the names of the whole tensors.
std::vector<std::pair<kernels::ArenaRange, std::string>> adapting(const tensor::ArenaLayout& layout,
                                                                  const Options& options) {
  std::vector<std::pair<kernels::ArenaRange, std::string>> named;
  const auto& tensors = layout.tensors();
  for (const auto& range : ranges_by_dimensions(layout, options, true)) {
    if (!range.options.adapts) continue;
    const auto first = std::ranges::lower_bound(tensors, range.offset, {}, &tensor::TensorView::offset);
    named.emplace_back(range, first->whole_name());
  }
  return named;
}
}  // namespace

SpreadTensors spread_tensors(const tensor::ArenaLayout& whole, const tensor::ArenaLayout& own, const Options& options) {
  SpreadTensors spread;
  std::map<std::string, std::size_t> numbers;
  for (const auto& [range, name] : adapting(whole, options)) {
    numbers.emplace(name, spread.whole.size());
    spread.whole.push_back(range);
  }
  for (const auto& [range, name] : adapting(own, options)) spread.own.push_back({range, numbers.at(name)});
  return spread;
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
