// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>
#include <utility>

#include <distdl/compression/codec.hpp>
#include <distdl/optim/rule.hpp>
#include <distdl/optim/shards.hpp>
#include <distdl/tensor/buffer.hpp>

namespace distdl::optim {
namespace {
constexpr std::size_t kLine = 16;  ///< floats

/// The border next to `place` in or beside a tensor whose place in the arena ends at `end`.
std::size_t border_in(const tensor::TensorView& tensor, std::size_t end, std::size_t place, Borders borders) {
  const bool has_rows = borders != Borders::of_tensors && !tensor.shape.empty() && tensor.count > 0;
  const std::size_t row = has_rows ? tensor.count / static_cast<std::size_t>(tensor.shape[0]) : 0;
  const std::size_t step = std::max<std::size_t>(
      1, has_rows ? std::lcm(row, borders == Borders::of_units ? compression::kMostElements : kLine)
                  : end - tensor.offset);
  const std::size_t border = tensor.offset + (place - tensor.offset + step / 2) / step * step;
  return border < tensor.offset + tensor.count ? border : end;
}

std::size_t border_near(std::size_t place, const tensor::ArenaLayout& layout, Borders borders) {
  const bool adapts = borders == Borders::of_tensors;
  const auto& tensors = layout.tensors();
  auto next = std::ranges::upper_bound(tensors, place, {}, &tensor::TensorView::offset);
  if (next == tensors.begin()) return 0;
  auto tensor = std::prev(next);
  while (adapts && tensor != tensors.begin() && tensor::same_whole(*std::prev(tensor), *tensor)) --tensor;
  while (adapts && next != tensors.end() && tensor::same_whole(*std::prev(next), *next)) ++next;
  return border_in(*tensor, next == tensors.end() ? layout.size() : next->offset, place, borders);
}

/// Borders are rounded, each to the side that makes up for what the parts before have lost.
class Divider {
 public:
  Divider(const tensor::ArenaLayout& layout, Borders borders, const std::vector<int>& weights)
      : layout_(layout), borders_(borders), before_(weights.size() + 1, 0), lost_(weights.size(), 0) {
    for (std::size_t r = 0; r < weights.size(); ++r) before_[r + 1] = before_[r] + static_cast<std::size_t>(weights[r]);
  }

  std::vector<Elements> divide(const Elements& part) {
    std::vector<Elements> slices;
    std::size_t first = part.first;
    for (std::size_t r = 1; r < lost_.size(); ++r) {
      const std::size_t border = std::clamp(border_for(r, part), first, part.end);
      slices.push_back({first, border});
      first = border;
    }
    slices.push_back({first, part.end});
    return slices;
  }

 private:
  std::size_t border_for(std::size_t r, const Elements& part) {
    const auto ideal = static_cast<std::ptrdiff_t>(part.first + part.count() * before_[r] / before_.back());
    const std::ptrdiff_t wanted =
        std::clamp(ideal + lost_[r], static_cast<std::ptrdiff_t>(part.first), static_cast<std::ptrdiff_t>(part.end));
    const std::size_t border = border_near(static_cast<std::size_t>(wanted), layout_, borders_);
    lost_[r] += ideal - static_cast<std::ptrdiff_t>(border);
    return border;
  }

  const tensor::ArenaLayout& layout_;
  Borders borders_;
  std::vector<std::size_t> before_;   ///< weights of the ranks before each
  std::vector<std::ptrdiff_t> lost_;  ///< elements, by border
};
}  // namespace

Shards shards_of(const Options& options, const tensor::ArenaLayout& layout, int ranks, std::vector<Elements> parts,
                 const std::vector<int>& weights) {
  const bool adapts = find_rule(options.name).adapts;
  return shards_of(adapts ? Borders::of_tensors : Borders::of_rows, layout, ranks, std::move(parts), weights);
}

Shards shards_of(Borders borders, const tensor::ArenaLayout& layout, int ranks, std::vector<Elements> parts,
                 const std::vector<int>& weights) {
  if (borders == Borders::of_tensors || parts.empty()) parts = {{0, layout.size()}};
  const auto count = static_cast<std::size_t>(ranks);
  Divider divider(layout, borders, weights.empty() ? std::vector<int>(count, 1) : weights);
  Shards shards{std::move(parts), std::vector<std::vector<Elements>>(count)};
  for (const Elements& part : shards.parts) {
    const auto slices = divider.divide(part);
    for (std::size_t r = 0; r < slices.size(); ++r) shards.of[r].push_back(slices[r]);
  }
  return shards;
}

std::vector<std::size_t> Shards::counts(std::size_t part) const {
  std::vector<std::size_t> counts;
  counts.reserve(of.size());
  for (const auto& slices : of) counts.push_back(slices[part].count());
  return counts;
}

void discard_others(std::span<float> arena, std::span<const Elements> shard) {
  std::vector<Elements> slices(shard.begin(), shard.end());
  std::ranges::sort(slices, {}, &Elements::first);
  std::size_t begin = 0;
  for (const Elements& slice : slices) {
    if (slice.count() == 0) continue;
    tensor::discard(std::as_writable_bytes(arena.subspan(begin, slice.first - begin)));
    begin = slice.end;
  }
  tensor::discard(std::as_writable_bytes(arena.subspan(begin)));
}

std::size_t place_in(std::span<const Elements> shard, std::size_t part) {
  std::size_t place = 0;
  for (const Elements& slice : shard.first(part)) place += slice.count();
  return place;
}

}  // namespace distdl::optim
