// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include <distdl/optim/rule.hpp>
#include <distdl/optim/shards.hpp>

namespace distdl::optim {
namespace {
constexpr std::size_t kLine = 16;  ///< floats

/// The border next to `place` in or beside a tensor whose place in the arena ends at `end`.
std::size_t border_in(const tensor::TensorView& tensor, std::size_t end, std::size_t place, bool adapts) {
  const bool has_rows = !adapts && !tensor.shape.empty() && tensor.count > 0;
  const std::size_t row = has_rows ? tensor.count / static_cast<std::size_t>(tensor.shape[0]) : 0;
  const std::size_t step = std::max<std::size_t>(1, has_rows ? std::lcm(row, kLine) : end - tensor.offset);
  const std::size_t border = tensor.offset + (place - tensor.offset + step / 2) / step * step;
  return border < tensor.offset + tensor.count ? border : end;
}

std::size_t border_near(std::size_t place, const tensor::ArenaLayout& layout, bool adapts) {
  const auto& tensors = layout.tensors();
  auto next = std::ranges::upper_bound(tensors, place, {}, &tensor::TensorView::offset);
  if (next == tensors.begin()) return 0;
  auto tensor = std::prev(next);
  while (adapts && tensor != tensors.begin() && tensor::same_whole(*std::prev(tensor), *tensor)) --tensor;
  while (adapts && next != tensors.end() && tensor::same_whole(*std::prev(next), *next)) ++next;
  return border_in(*tensor, next == tensors.end() ? layout.size() : next->offset, place, adapts);
}
}  // namespace

std::vector<Elements> shards_of(const Options& options, const tensor::ArenaLayout& layout, int ranks) {
  const bool adapts = find_rule(options.name).adapts;
  const auto count = static_cast<std::size_t>(ranks);
  std::vector<Elements> shards{{0, layout.size()}};
  for (std::size_t r = 1; r < count; ++r) {
    const std::size_t border = border_near(layout.size() * r / count, layout, adapts);
    shards.push_back({border, layout.size()});
    shards[r - 1].end = border;
  }
  return shards;
}

}  // namespace distdl::optim
