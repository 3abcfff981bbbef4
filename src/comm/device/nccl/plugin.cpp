// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <memory>

#include <nccl.h>

#include <distdl/base/errors.hpp>
#include <distdl/comm/device/device_transport.hpp>

namespace distdl::comm {
namespace {

/// Throws CommError unless all is well or will be: a communicator that does not block says "in progress".
void check(ncclResult_t code, const char* what) {
  if (code != ncclSuccess && code != ncclInProgress)
    throw CommError(fmt::format("NCCL cannot {}: {} ({}); NCCL_DEBUG=WARN shows more", what, ncclGetErrorString(code),
                                ncclGetLastError(nullptr)));
}

ncclDataType_t nccl_type(DataType type) {
  switch (type) {
    case DataType::float32:
      return ncclFloat32;
    case DataType::float64:
      return ncclFloat64;
    case DataType::float16:
      return ncclFloat16;
    case DataType::bfloat16:
      return ncclBfloat16;
    case DataType::int32:
      return ncclInt32;
    case DataType::int64:
      return ncclInt64;
    default:
      break;
  }
  return ncclUint8;
}

ncclRedOp_t nccl_operation(Reduction reduction) {
  if (reduction == Reduction::maximum) return ncclMax;
  if (reduction == Reduction::minimum) return ncclMin;
  return ncclSum;
}

class NcclTransport final : public DeviceTransport {
 public:
  NcclTransport(const std::string& id, int rank, int size) {
    ncclUniqueId unique{};
    require<CommError>(id.size() == sizeof unique, "an id of NCCL has {} bytes, but this one has {}", sizeof unique,
                       id.size());
    std::memcpy(&unique, id.data(), sizeof unique);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    check(ncclCommInitRankConfig(&communicator_, size, unique, rank, &config), "start a communicator");
  }
  ~NcclTransport() override { NcclTransport::abort(); }
  NcclTransport(const NcclTransport&) = delete;
  NcclTransport& operator=(const NcclTransport&) = delete;

  bool ready() override {
    require<CommError>(communicator_ != nullptr, "NCCL's communicator was aborted");
    ncclResult_t state = ncclSuccess;
    check(ncclCommGetAsyncError(communicator_, &state), "report its state");
    check(state, "continue");
    return state == ncclSuccess;
  }

  void begin(const Call& call, void* queue) override {
    auto* const stream = static_cast<cudaStream_t>(queue);
    const ncclDataType_t type = nccl_type(call.type);
    const ncclRedOp_t operation = nccl_operation(call.reduction);
    switch (call.collective) {
      case Collective::broadcast:
        return check(ncclBroadcast(call.input, call.output, call.count, type, call.root, communicator_, stream),
                     "broadcast");
      case Collective::reduce:
        return check(ncclReduce(call.input, call.output, call.count, type, operation, call.root, communicator_, stream),
                     "reduce");
      case Collective::all_reduce:
        return check(ncclAllReduce(call.input, call.output, call.count, type, operation, communicator_, stream),
                     "all-reduce");
      case Collective::reduce_scatter:
        return check(ncclReduceScatter(call.input, call.output, call.count, type, operation, communicator_, stream),
                     "reduce-scatter");
      case Collective::all_gather:
        return check(ncclAllGather(call.input, call.output, call.count, type, communicator_, stream), "all-gather");
      default:
        throw InternalError("NCCL does not have this collective");
    }
  }

  void abort() noexcept override {
    if (communicator_) (void)ncclCommAbort(std::exchange(communicator_, nullptr));
  }

 private:
  ncclComm_t communicator_ = nullptr;
};

std::string version() {
  int number = 0;
  check(ncclGetVersion(&number), "report its version");
  return fmt::format("NCCL {}.{}.{}", number / 10000, number / 100 % 100, number % 100);
}

std::string make_id() {
  ncclUniqueId id{};
  check(ncclGetUniqueId(&id), "create an id");
  return {reinterpret_cast<const char*>(&id), sizeof id};
}

DeviceTransport* join(const std::string& id, int rank, int size) {
  return std::make_unique<NcclTransport>(id, rank, size).release();
}

}  // namespace
}  // namespace distdl::comm

// The name is kNcclSymbol.
extern "C" __attribute__((visibility("default"))) const distdl::comm::NcclPlugin distdl_nccl_plugin{
    DISTDL_NCCL_INTERFACE, &distdl::comm::version, &distdl::comm::make_id, &distdl::comm::join};
