// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <vector>

#include <ucs/memory/memory_type.h>

#include <distdl/comm/accelerator.hpp>

namespace distdl::comm {

/// Host memory between the device and the wire, kept for the next use: to pin memory takes long.
class StagingPool {
 public:
  explicit StagingPool(Accelerator& accelerator) : accelerator_(accelerator) {}
  /// Room for `bytes` or more.
  tensor::Buffer take(std::size_t bytes);
  void give_back(tensor::Buffer buffer) noexcept;

 private:
  Accelerator& accelerator_;
  std::map<std::size_t, std::vector<tensor::Buffer>> free_;  ///< by size
};

/// How the collectives of one rank reach a device's memory.
struct DeviceAccess {
  explicit DeviceAccess(std::shared_ptr<Accelerator> the_accelerator)
      : accelerator(std::move(the_accelerator)), staging(*accelerator) {}

  std::shared_ptr<Accelerator> accelerator;
  bool direct = false;                                      ///< UCX moves its memory, on all ranks
  ucs_memory_type_t memory_type = UCS_MEMORY_TYPE_UNKNOWN;  ///< as UCX calls it, where direct
  StagingPool staging;
};

}  // namespace distdl::comm
