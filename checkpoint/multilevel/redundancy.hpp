// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

// Assigns partners and parity sets, as pure functions of the ranks' places. `domains[rank]` names the failure domain of
// a rank: ranks of one domain (a node, a rack) are lost together.
namespace distdl::checkpoint {

using Domains = std::vector<std::string>;

/// The partner that keeps a copy of each rank's snapshot. It is in the next domain, so that the loss of one domain
/// never destroys both. -1 if there is only one domain.
std::vector<int> partners_of(const Domains& domains);

/// Sets of ranks that share parity. Every set has members of 2 to `largest` (at least 3) different domains, so that one
/// lost member can be rebuilt. A rank without a counterpart in another domain is in no set. The scheme is that of SCR:
/// Moody et al., "Design, Modeling, and Evaluation of a Scalable Multi-level Checkpointing System", SC 2010.
std::vector<std::vector<int>> parity_sets(const Domains& domains, int largest);

/// How a set divides the parity of its members' snapshots, the longest of which has `longest` bytes. Each snapshot is
/// divided into members - 1 chunks, padded with zeros. Each member keeps one chunk: the XOR of one chunk of every other
/// member.
struct ParityLayout {
  int members = 0;
  std::size_t longest = 0;

  std::size_t chunk() const {
    return (longest + static_cast<std::size_t>(members) - 2) / static_cast<std::size_t>(members - 1);
  }
  /// The chunk of member `of` that goes into the parity of member `keeper`; both differ.
  std::size_t chunk_of(int of, int keeper) const {
    return static_cast<std::size_t>((keeper - of - 1 + members) % members);
  }
};

/// Computes target[i] ^= source[i]. A shorter `source` is padded with zeros.
void add_parity(std::span<std::byte> target, std::span<const std::byte> source);
/// Chunk number `chunk` of a snapshot. At the end of the snapshot it is shorter than a chunk, or empty.
std::span<const std::byte> chunk_of(std::span<const std::byte> snapshot, const ParityLayout& layout, std::size_t chunk);

}  // namespace distdl::checkpoint
