// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include <distdl/base/errors.hpp>
#include <distdl/kernels/cuda/primitives/reduce_pass.hpp>

namespace distdl::kernels::cuda {

/// If there are more operands than one pass takes, several passes are made. They keep their partial results in
/// workspace(0), workspace(1), ..., which the next pass reads. Throws InternalError for more than ReducePass::kPartials
/// partial results at a time.
template <class Workspace>
std::vector<ReducePass> passes_of(std::span<const tensor::ReduceSource> sources, std::span<void* const> targets,
                                  double scale, const Workspace& workspace) {
  std::vector<ReducePass> passes(1);
  int depth = 0;
  for (const tensor::ReduceSource& source : sources) {
    if (passes.back().source_count == ReducePass::kSources) {
      ReducePass& full = passes.back();
      full.partial = true;
      full.result_count = depth;
      ReducePass next{};
      next.source_count = depth;
      for (int i = 0; i < depth; ++i) next.sources[i] = full.results[i] = workspace(i);
      passes.push_back(next);
    }
    ReducePass& pass = passes.back();
    pass.sources[pass.source_count] = source.data;
    pass.reductions[pass.source_count++] = static_cast<std::uint8_t>(source.reductions);
    depth += 1;
    require<InternalError>(depth < ReducePass::kPartials, "a sum with {} partial results at a time", depth);
    depth -= source.reductions;
  }
  ReducePass& last = passes.back();
  require<InternalError>(targets.size() <= ReducePass::kPartials, "a sum has {} targets, which are too many",
                         targets.size());
  std::copy(targets.begin(), targets.end(), last.results);
  last.result_count = static_cast<int>(targets.size());
  last.scale = scale;
  return passes;
}

}  // namespace distdl::kernels::cuda
