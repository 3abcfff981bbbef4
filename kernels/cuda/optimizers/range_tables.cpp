// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include <distdl/kernels/cuda/optimizers/range_tables.hpp>

namespace distdl::kernels::cuda {

StretchTable StretchTables::of(Device& device, StagingRing& staging, Stretches stretches) {
  const auto found =
      std::ranges::find_if(kept_, [&](const Kept& kept) { return std::ranges::equal(kept.stretches, stretches); });
  if (found != kept_.end()) return found->table;
  const auto all = parts_of(stretches);
  const std::size_t bytes = all.size() * sizeof(StretchParts);
  tensor::Buffer memory = device.allocate_unset(bytes);
  staging.send(device, memory.data(), all.data(), bytes);
  const StretchTable table = table_of(all, static_cast<const StretchParts*>(memory.data()));
  device.reserve_scratch(static_cast<std::size_t>(table.parts + 2 * table.count) * sizeof(double));
  kept_.push_back({{stretches.begin(), stretches.end()}, std::move(memory), table});
  return table;
}

}  // namespace distdl::kernels::cuda
