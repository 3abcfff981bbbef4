// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>

#include <distdl/comm/accelerator.hpp>
#include <distdl/comm/communicator.hpp>

namespace distdl::comm {

/// The device of a rank.
using MakeAccelerator = std::function<std::shared_ptr<Accelerator>(Rank)>;

inline constexpr Reduction kAllReductions[] = {Reduction::sum, Reduction::maximum, Reduction::minimum,
                                               Reduction::average};

/// Each compares a collective on the device's memory with the same one on the host's, which other tests judge: the bits
/// must be the same. Vectors of about `count` elements. To be called by all ranks.
void check_sums_on_device(Communicator& communicator, Accelerator& device, std::size_t count, DataType type,
                          std::span<const Reduction> reductions = kAllReductions);
void check_moves_on_device(Communicator& communicator, Accelerator& device, std::size_t count);
void check_leaves_on_device(Communicator& communicator, Accelerator& device, std::size_t count, int leaves);

/// Until the bytes are there.
std::vector<std::byte> read(Accelerator& device, const void* from, std::size_t bytes);
void write(Accelerator& device, void* to, const std::vector<std::byte>& bytes);
/// Finite values of the type.
std::vector<std::byte> random_values(DataType type, std::size_t count, unsigned seed);

}  // namespace distdl::comm
