// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <string>

namespace distdl::checkpoint {

/// The start that may write to a checkpoint folder, as recorded in OWNER. A run that finds another owner there before a
/// commit is a zombie and must stop: a requeued job may start while its first process still writes.
struct Owner {
  std::string job;  ///< Slurm job id, or "local"
  std::int64_t restart = 0;
  std::uint32_t generation = 0;
  std::string nonce;         ///< random; the same on all ranks of a run
  std::string lineage = {};  ///< random; the same for all who own the folder one after the other, as long as it exists
  std::uint64_t start = 0;   ///< number of the start within the lineage, from 1; Store::take() counts
  std::int64_t keep = 0;     ///< Options::keep of that run, for tools; 0: not told, as by an older distdl
  std::int64_t keep_every = 0;        ///< Options::keep_every of that run
  std::uint64_t snapshots_since = 0;  ///< snapshots (levels.hpp) of starts before this one are ignored
};

/// Whether a start uses the snapshots of earlier starts.
enum class SnapshotUse { newest, none };

/// Which start of a run wrote something. Later ones are greater.
struct Start {
  std::uint64_t number = 0;                        ///< Owner::start; 0: not known
  std::uint32_t identity = 0;                      ///< of two that took the folder at the same moment
  auto operator<=>(const Start&) const = default;  // NOLINT(modernize-use-nullptr): it is none
};
Start start_of(const Owner& owner);

}  // namespace distdl::checkpoint
