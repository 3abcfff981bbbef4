// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <vector>

#include <ucs/memory/memory_type.h>

#include <distdl/comm/accelerator.hpp>

namespace distdl::comm {

/// Host memory for transfers of device memory. It is kept for reuse, because pinning memory takes long.
class StagingPool {
 public:
  explicit StagingPool(Accelerator& accelerator) : accelerator_(accelerator) {}
  /// Memory of `bytes` or more.
  tensor::Buffer take(std::size_t bytes);
  void give_back(tensor::Buffer buffer) noexcept;

 private:
  Accelerator& accelerator_;
  std::map<std::size_t, std::vector<tensor::Buffer>> free_;  ///< by size
};

/// The access of one rank's collectives to a device's memory.
struct DeviceAccess {
  explicit DeviceAccess(std::shared_ptr<Accelerator> the_accelerator)
      : accelerator(std::move(the_accelerator)), staging(*accelerator) {}

  std::shared_ptr<Accelerator> accelerator;
  bool direct = false;                                      ///< UCX transfers its memory directly on all ranks
  ucs_memory_type_t memory_type = UCS_MEMORY_TYPE_UNKNOWN;  ///< UCX's type of this memory, if it transfers it directly
  StagingPool staging;
};

}  // namespace distdl::comm
