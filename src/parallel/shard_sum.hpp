// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include <distdl/comm/communicator.hpp>
#include <distdl/kernels/backend.hpp>

namespace distdl::parallel {

/// Returns the tensor shards of each rank of a group: as equal in number as they can be, in order.
comm::Leaves shards_of_ranks(int shards, int ranks);

/// Collective. The values at `all` are `count` for each of `shards`; each rank has written those of its own. Writes the
/// others. The memory is that of the host, or of the device that `group` uses. Throws comm::PeerLost.
void gather_shards(comm::Communicator& group, int shards, tensor::DataType type, void* all, std::size_t count);

/// Collective. Writes to `all` counts[s] values of each shard s, one after the other. `own`: the values of this rank's
/// shards, elsewhere or at their place in `all`. Throws comm::PeerLost.
void gather_shards(comm::Communicator& group, tensor::DataType type, const void* own, void* all,
                   std::span<const std::size_t> counts);

/// Adds activations of tensor shards that lie on the ranks of a group, for model::Network::set_exchange_of_shards().
/// The bits are those of Backend::sum() over all shards on one rank.
class ShardSum {
 public:
  /// The shards lie on the ranks of `group` as shards_of_ranks() says. Where the host cannot address the backend's
  /// memory, `group` uses its accelerator by the first call. The references must outlive this object.
  ShardSum(kernels::Backend& backend, comm::Communicator& group, int shards);
  /// Collective. `addends`: one for each shard of this rank, in order. Sets addends[0] to the sum over all shards.
  /// Throws comm::PeerLost.
  void operator()(const kernels::ActivationFormat& format, std::span<void* const> addends);
  /// Collective. Sums as operator() does, but writes to `own` only the values of this rank's shards, one after the
  /// other; shard s has counts[s]. Throws comm::PeerLost.
  void to_slices(const kernels::ActivationFormat& format, std::span<void* const> addends, void* own,
                 std::span<const std::size_t> counts);

 private:
  void add_own(const kernels::ActivationFormat& format, std::span<void* const> addends);

  kernels::Backend& backend_;
  comm::Communicator& group_;
  comm::Leaves leaves_;
  std::vector<comm::LeafRange> own_;         ///< the leaves below each node of this rank's cover
  std::vector<comm::ConstVector> partials_;  ///< the sums over these nodes
};

}  // namespace distdl::parallel
