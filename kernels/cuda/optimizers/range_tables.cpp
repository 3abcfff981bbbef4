// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include <distdl/kernels/cuda/optimizers/range_tables.hpp>

namespace distdl::kernels::cuda {

RangeTable RangeTables::of(Device& device, StagingRing& staging, ArenaRanges ranges) {
  const auto found =
      std::ranges::find_if(kept_, [&](const Kept& kept) { return std::ranges::equal(kept.ranges, ranges); });
  if (found != kept_.end()) return found->table;
  const auto all = parts_of(ranges);
  const std::size_t bytes = all.size() * sizeof(RangeParts);
  tensor::Buffer memory = device.allocate_unset(bytes);
  staging.send(device, memory.data(), all.data(), bytes);
  const RangeTable table = table_of(all, static_cast<const RangeParts*>(memory.data()));
  device.reserve_scratch(static_cast<std::size_t>(table.parts + 2 * table.count) * sizeof(double));
  kept_.push_back({{ranges.begin(), ranges.end()}, std::move(memory), table});
  return table;
}

}  // namespace distdl::kernels::cuda
