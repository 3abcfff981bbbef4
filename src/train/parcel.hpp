// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <distdl/comm/communicator.hpp>
#include <distdl/kernels/backend.hpp>

namespace distdl::train {

/// A message from one stage to another, of memory of the backend. Without a device it is sent from there and received
/// there, else through host memory.
class Parcel {
 public:
  Parcel(kernels::Backend& backend, comm::Communicator& communicator, std::uint32_t tag)
      : backend_(backend), communicator_(communicator), tag_(tag) {}

  /// The memory must not change until settle() has returned.
  void send(std::span<const std::byte> values, Rank to);
  /// Returns when what was sent last is sent.
  void settle();
  /// Waits. Throws comm::PeerLost.
  void receive(std::span<std::byte> values, Rank from);

 private:
  std::span<std::byte> staging(std::size_t bytes);

  kernels::Backend& backend_;
  comm::Communicator& communicator_;
  std::uint32_t tag_;
  tensor::Buffer staging_;
  comm::Request sent_;
  bool is_under_way_ = false;
};

}  // namespace distdl::train
