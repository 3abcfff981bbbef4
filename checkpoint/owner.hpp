// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <string>

namespace distdl::checkpoint {

/// The start that may write to a checkpoint folder, as recorded in OWNER. A run that finds another owner there before a
/// commit is a zombie and must stop. This happens when a requeued job starts while its first process still writes.
struct Owner {
  std::string job;  ///< Slurm job id, or "local"
  std::int64_t restart = 0;
  std::uint32_t generation = 0;
  std::string nonce;            ///< random; the same on all ranks of a run
  std::string lineage = {};     ///< random; the same for all successive owners of the folder, as long as it exists
  std::uint64_t start = 0;      ///< number of the start within the lineage, from 1; counted by Store::take()
  std::int64_t keep = 0;        ///< Options::keep of that run, for tools; 0: unknown, because an older distdl wrote it
  std::int64_t keep_every = 0;  ///< Options::keep_every of that run
  std::uint64_t snapshots_since = 0;  ///< snapshots (levels.hpp) of earlier starts are ignored
  std::string launch = {};  ///< launch whose generations follow each other; empty: not known, or there is only one
};

/// Whether a start uses the snapshots of earlier starts.
enum class SnapshotUse { newest, none };

/// The start of a run that wrote something. Later starts compare greater.
struct Start {
  std::uint64_t number = 0;                        ///< Owner::start; 0: unknown
  std::uint32_t identity = 0;                      ///< distinguishes two starts that took the folder at the same moment
  auto operator<=>(const Start&) const = default;  // NOLINT(modernize-use-nullptr): it is none
};
Start start_of(const Owner& owner);

}  // namespace distdl::checkpoint
