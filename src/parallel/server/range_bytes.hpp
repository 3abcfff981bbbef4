// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include <distdl/parallel/server/messages.hpp>
#include <distdl/parallel/server/packet.hpp>
#include <distdl/parallel/server/range_code.hpp>
#include <distdl/parallel/server/step_parts.hpp>
#include <distdl/parallel/server/version_memory.hpp>

namespace distdl::parallel::server {

/// A gradient of a range, or the sum of the gradients of a step.
struct RangeGradient {
  std::vector<float> values;
  Tail tail{};
  std::vector<float> parameters = {};  ///< parameters with which it was computed; none: they are gone, or not wanted
};

/// The bytes of a range at its server, in the order that RangeCopy defines: its versions, and the gradients that are
/// not applied yet. The gradients of a step, each the sum of a part, are added along the tree of comm::TreeNode as they
/// come, so that their sum has the bits of GradientSum.
class RangeBytes {
 public:
  /// `newest`: the range in an arena, where gradients are applied, version 0 at first. `parts`, `code`, in which
  /// versions are read, and `memory`, which has these, must outlive this object.
  RangeBytes(std::span<float> newest, Mode mode, const StepParts& parts, const RangeCode& code,
             const VersionMemory& memory)
      : newest_(newest), mode_(mode), parts_(&parts), code_(&code), memory_(&memory) {}

  /// Returns the code of a version that RangeCopy has.
  Values read(Version version);
  /// Returns the code of a version, or nullptr if it was never read or is gone.
  Values find(Version version) const;
  void store(Microbatch microbatch, RangeGradient gradient);
  /// Returns the gradient to apply to `newest`, and counts `newest` as that version from now on. Throws InternalError
  /// if the sum of the step is not complete.
  RangeGradient take(const Apply& apply);
  void forget(Version version) { versions_.erase(version); }

 private:
  std::span<float> newest_;
  Mode mode_;
  const StepParts* parts_;
  const RangeCode* code_;
  const VersionMemory* memory_;
  Version version_{0};                  ///< version of `newest_`
  std::map<Version, Values> versions_;  ///< versions that were read
  std::map<Microbatch, RangeGradient> gradients_;
  std::map<std::pair<int, int>, RangeGradient> sums_;  ///< sums at the nodes of the tree of a step, by level and index
};

}  // namespace distdl::parallel::server
