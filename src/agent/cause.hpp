// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include <distdl/base/ids.hpp>

namespace distdl::agent {

using NodeId = StrongId<struct NodeTag, std::uint32_t>;  ///< number of a node of the launch, from 0; it never changes

/// Kind of the cause that broke off a generation.
enum class CauseKind : std::uint8_t {
  unknown,
  killed,         ///< a rank, by SIGKILL or another signal from outside
  crashed,        ///< a rank, by a signal of its own: SIGSEGV, SIGABRT ...
  out_of_memory,  ///< a rank, by the kernel
  failed,         ///< a rank ended with an exit code
  frozen,         ///< a rank gave no sign of life
  no_progress,    ///< a rank stayed in one phase
  node_lost,      ///< nobody hears it
  link_lost,      ///< a node is heard by some and not by others
  poison_step,    ///< ranks crashed twice after the same step
  diverged,       ///< the loss became infinite or not a number
  corrupted       ///< an audit found wrong bits in a rank
};

/// Name of the kind in the journal.
constexpr std::string_view name_of(CauseKind kind) {
  constexpr std::array<std::string_view, 12> kNames{"unknown",   "killed",      "crashed",     "out of memory",
                                                    "failed",    "frozen",      "no progress", "node lost",
                                                    "link lost", "poison step", "diverged",    "silent corruption"};
  return kNames[static_cast<std::size_t>(kind)];
}
constexpr CauseKind kLastCauseKind = CauseKind::corrupted;

/// Cause that broke off a generation, and its place, as far as they are known.
struct Origin {
  CauseKind kind = CauseKind::unknown;
  std::optional<NodeId> node = {};
  std::optional<std::int32_t> rank = {};

  friend bool operator==(const Origin&, const Origin&) = default;
};

}  // namespace distdl::agent
