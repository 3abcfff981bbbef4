// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>

#include <distdl/optim/ranges.hpp>

namespace distdl::optim {

std::vector<kernels::Stretch> stretches_of(const std::vector<Range>& ranges) {
  std::vector<kernels::Stretch> stretches;
  for (const Range& range : ranges) stretches.push_back({range.offset, range.count});
  return stretches;
}

std::vector<Range> those_that(bool adapt, const std::vector<Range>& ranges) {
  std::vector<Range> kept;
  std::copy_if(ranges.begin(), ranges.end(), std::back_inserter(kept),
               [&](const Range& range) { return range.treatment.adapts == adapt; });
  return kept;
}

std::vector<Range> ranges_of(const tensor::ArenaLayout& layout, tensor::Role role,
                             const std::function<Treatment(const tensor::TensorView&)>& treat) {
  std::vector<Range> ranges;
  bool follows = false;  // the tensor before is the end of the last range
  for (const auto& tensor : layout.tensors()) {
    if (tensor.role != role) {
      follows = false;
      continue;
    }
    const Treatment treatment = treat(tensor);
    if (follows && treatment == ranges.back().treatment && !treatment.adapts)
      ranges.back().count = tensor.offset + tensor.count - ranges.back().offset;
    else
      ranges.push_back({tensor.offset, tensor.count, treatment});
    follows = true;
  }
  return ranges;
}

std::vector<Range> ranges_of(const tensor::ArenaLayout& layout, tensor::Role role) {
  return ranges_of(layout, role, [](const tensor::TensorView&) { return Treatment{}; });
}

std::vector<Range> ranges_by_dimensions(const tensor::ArenaLayout& layout, const Options& options, bool adapts) {
  return ranges_of(layout, tensor::Role::parameter, [&](const tensor::TensorView& tensor) {
    const bool several = tensor.shape.size() > 1;
    return Treatment{several || options.decay_one_dimensional, several && adapts};
  });
}

}  // namespace distdl::optim
