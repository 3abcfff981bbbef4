// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include <distdl/comm/element.hpp>
#include <distdl/comm/schedule.hpp>

namespace distdl::comm {

/// Collectives that a vendor's library performs among the devices of all ranks.
class DeviceTransport {
 public:
  struct Call {
    Collective collective = Collective::barrier;
    const void* input = nullptr;
    void* output = nullptr;
    std::size_t count = 0;  ///< elements; for reduce_scatter and all_gather: of one rank
    DataType type = DataType::byte;
    Reduction reduction = Reduction::sum;  ///< not average
    int root = 0;
  };
  virtual ~DeviceTransport() = default;
  /// Returns true when the ranks are connected and all calls so far are in the device's queue. Throws CommError if the
  /// library has failed.
  virtual bool ready() = 0;
  /// May be called only when ready() returns true. All ranks make the same calls in the same order. For `queue` see
  /// Accelerator::library_queue().
  virtual void begin(const Call& call, void* queue) = 0;
  /// Ends all operations permanently.
  virtual void abort() noexcept = 0;
};

/// The symbol kNcclSymbol of the plug-in libdistdl_nccl.so. Because of the plug-in, programs do not need NCCL.
struct NcclPlugin {
  /// Digest of the headers with which both sides were compiled. It stays the first member.
  const char* interface;
  std::string (*version)();
  /// Called on one rank for all ranks. Throws CommError.
  std::string (*make_id)();
  /// Begins to connect the ranks, see ready(). The caller owns the result. Throws CommError.
  DeviceTransport* (*join)(const std::string& id, int rank, int size);
};

inline constexpr const char* kNcclFile = "libdistdl_nccl.so";
inline constexpr const char* kNcclSymbol = "distdl_nccl_plugin";

/// Loads the plug-in permanently. Throws ConfigError if the plug-in or NCCL is missing, or if it belongs to another
/// distdl.
const NcclPlugin& load_nccl();

}  // namespace distdl::comm
