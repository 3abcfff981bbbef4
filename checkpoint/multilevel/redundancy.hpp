// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

// Who keeps what for whom, as pure functions of where the ranks run. `domains[rank]` names the failure domain of a
// rank: ranks of one domain (a node, a rack) are lost together.
namespace distdl::checkpoint {

using Domains = std::vector<std::string>;

/// For each rank the one that keeps a copy of its snapshot: of the next domain, so that the loss of one domain never
/// takes both. -1 if there is only one domain.
std::vector<int> partners_of(const Domains& domains);

/// Ranks that share parity: every set has members of 2 to `largest` (at least 3) different domains, and the loss of
/// one member can be made good. A rank without a counterpart in another domain is in no set.
/// As in SCR: Moody et al., "Design, Modeling, and Evaluation of a Scalable Multi-level Checkpointing System", SC 2010.
std::vector<std::vector<int>> parity_sets(const Domains& domains, int largest);

/// How a set shares the parity of its members' snapshots, the longest of which has `longest` bytes: each snapshot
/// counts as members - 1 chunks (zeros where it is shorter), and each member keeps, in one chunk, the XOR of one chunk
/// of every other member.
struct ParityLayout {
  int members = 0;
  std::size_t longest = 0;

  std::size_t chunk() const {
    return (longest + static_cast<std::size_t>(members) - 2) / static_cast<std::size_t>(members - 1);
  }
  /// Which chunk of member `of` goes into the parity of member `keeper`; they differ.
  std::size_t chunk_of(int of, int keeper) const {
    return static_cast<std::size_t>((keeper - of - 1 + members) % members);
  }
};

/// target[i] ^= source[i]; `source` may be shorter: zeros follow.
void add_parity(std::span<std::byte> target, std::span<const std::byte> source);
/// The part of a snapshot that is its chunk number `chunk`: shorter than a chunk, or empty, at the end.
std::span<const std::byte> chunk_of(std::span<const std::byte> snapshot, const ParityLayout& layout, std::size_t chunk);

}  // namespace distdl::checkpoint
