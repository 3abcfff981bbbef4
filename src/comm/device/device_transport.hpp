// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include <distdl/comm/element.hpp>
#include <distdl/comm/schedule.hpp>

namespace distdl::comm {

/// Collectives that a library of the devices' vendor does by itself among the devices of all ranks.
class DeviceTransport {
 public:
  struct Call {
    Collective collective = Collective::barrier;
    const void* input = nullptr;
    void* output = nullptr;
    std::size_t count = 0;  ///< elements; reduce_scatter, all_gather: of one rank
    DataType type = DataType::byte;
    Reduction reduction = Reduction::sum;  ///< not average
    int root = 0;
  };
  virtual ~DeviceTransport() = default;
  /// True when the ranks have met and all calls so far are in their queue. Throws CommError if the library has failed.
  virtual bool ready() = 0;
  /// Only when ready. All ranks make the same calls in the same order. `queue`: see Accelerator::library_queue().
  virtual void begin(const Call& call, void* queue) = 0;
  /// Ends what is under way, for good.
  virtual void abort() noexcept = 0;
};

/// What the plug-in libdistdl_nccl.so exports under kNcclSymbol. It is a plug-in so that programs need no NCCL.
struct NcclPlugin {
  /// Digest of the headers that both sides were compiled with. Stays the first member.
  const char* interface;
  std::string (*version)();
  /// On one rank, for all. Throws CommError.
  std::string (*make_id)();
  /// Begins to meet the others, see ready(). The caller owns the result. Throws CommError.
  DeviceTransport* (*join)(const std::string& id, int rank, int size);
};

inline constexpr const char* kNcclFile = "libdistdl_nccl.so";
inline constexpr const char* kNcclSymbol = "distdl_nccl_plugin";

/// Loads the plug-in, for good. Throws ConfigError if it or NCCL is missing, or if it belongs to another distdl.
const NcclPlugin& load_nccl();

}  // namespace distdl::comm
