// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <stop_token>
#include <vector>

#include <distdl/comm/communicator.hpp>
#include <distdl/compression/codec.hpp>
#include <distdl/optim/shards.hpp>
#include <distdl/parallel/coded_units.hpp>
#include <distdl/parallel/options.hpp>
#include <distdl/tensor/arena.hpp>

namespace distdl::train {

/// Gathers parameters of which each rank updates its slices, in fewer bytes: a rank sends codes of what it has changed,
/// and all ranks add the decoded values to the parameters that all of them have. The owner of a slice alone knows what
/// the codes lack so far, and updates its parameters with that, so that they are the exact ones for each update (error
/// feedback, as for gradients). Short tensors and values other than parameters are sent as they are.
///
/// The bits do not depend on how tensors are divided, if slices have Borders::of_units.
class ChangeGather {
 public:
  /// The references must outlive this object.
  ChangeGather(comm::Communicator& communicator, const parallel::Options& options, const tensor::ArenaLayout& layout,
               const optim::Shards& shards);
  /// `lacks`: for each element of this rank's slices, one slice after the other, what the parameters lack.
  void set_state(float* parameters, std::span<float> lacks);
  /// Call between two steps, with the encoding of the gradients.
  void use(parallel::Compression gradients);
  /// Call before these elements are updated, once in each step. The arena has the exact parameters of those in this
  /// rank's slices from then until gather().
  void begin_update(const optim::Elements& elements);
  /// Collective, when a part is updated. All ranks then have the same parameters. Returns early if a stop is requested.
  /// Throws comm::PeerLost.
  void gather(std::size_t part, const std::stop_token& stop);

 private:
  /// The units of a part, those of one rank after those of another, and where their codes are.
  struct Part {
    std::vector<parallel::CodedUnit> units;
    std::vector<std::size_t> ends;           ///< for each rank, the number of units up to its last one
    std::vector<std::size_t> bytes, places;  ///< bytes and begin of each rank's codes
  };
  Part part_of(std::size_t part) const;
  const compression::Codec& codec_of(const parallel::CodedUnit& unit) const { return unit.is_exact ? exact_ : codec_; }
  std::span<const parallel::CodedUnit> units_of(const Part& part, std::size_t rank) const;
  const optim::Elements& own(std::size_t part) const { return shards_.of[self_][part]; }
  /// Elements of this rank's slice of a part, in lacks_.
  std::span<float> lacks_of(std::size_t part, const optim::Elements& elements) const;
  void encode(std::size_t part);
  void decode(std::size_t part, std::size_t rank);

  comm::Communicator& communicator_;
  parallel::Options options_;  ///< the compression is the one in use
  const tensor::ArenaLayout& layout_;
  const optim::Shards& shards_;
  const std::size_t ranks_, self_;
  compression::Codec codec_, exact_;
  std::vector<Part> parts_;
  float* parameters_ = nullptr;
  std::span<float> lacks_;  ///< between begin_update() and gather(), the parameters that all ranks have
  std::vector<std::byte> codes_;
  std::vector<float> values_;
};

}  // namespace distdl::train
