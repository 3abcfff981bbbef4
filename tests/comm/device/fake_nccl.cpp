// SPDX-License-Identifier: Apache-2.0
// Stands in for the plug-in of NCCL among ranks that are threads: each call waits on its device until all ranks have
// come, and adds in the order of the ranks.
#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "tests/comm/device/far_accelerator.hpp"
#include <distdl/base/errors.hpp>
#include <distdl/comm/device/device_transport.hpp>

namespace distdl::comm {
namespace {

struct Round {
  std::vector<const std::byte*> inputs;
  int come = 0, left = 0;
};
struct Meeting {
  std::mutex mutex;
  std::map<std::uint64_t, Round> rounds;
  std::atomic<int> joined = 0;
  std::atomic<bool> aborted = false;
};

std::shared_ptr<Meeting> meeting_of(const std::string& id) {
  static std::mutex mutex;
  static std::map<std::string, std::shared_ptr<Meeting>> all;
  const std::lock_guard lock(mutex);
  auto& meeting = all[id];
  if (!meeting) meeting = std::make_shared<Meeting>();
  return meeting;
}

class FakeTransport final : public DeviceTransport {
 public:
  FakeTransport(const std::string& id, int rank, int size) : meeting_(meeting_of(id)), rank_(rank), size_(size) {
    ++meeting_->joined;
  }
  ~FakeTransport() override { FakeTransport::abort(); }

  bool ready() override {
    require<CommError>(!meeting_->aborted, "the stand-in was aborted");
    return meeting_->joined == size_ && ++asked_ % 3 == 0;  // seldom at once
  }

  void begin(const Call& call, void* queue) override {
    auto& device = *static_cast<FarAccelerator::LibraryQueue*>(queue);
    const std::byte* input = device.inside(call.input);
    std::byte* output = device.inside(call.output);
    device.put([this, call, input, output, number = number_++] { run(call, input, output, number); });
  }

  void abort() noexcept override { meeting_->aborted = true; }

 private:
  bool all(std::uint64_t number, int Round::*count) {
    const std::lock_guard lock(meeting_->mutex);
    return meeting_->rounds[number].*count == size_ || meeting_->aborted;
  }
  void run(const Call& call, const std::byte* input, std::byte* output, std::uint64_t number) {
    std::vector<std::int32_t> result(call.count);
    {
      const std::lock_guard lock(meeting_->mutex);
      Round& round = meeting_->rounds[number];
      round.inputs.resize(static_cast<std::size_t>(size_));
      round.inputs[static_cast<std::size_t>(rank_)] = input;
      ++round.come;
    }
    while (!all(number, &Round::come)) std::this_thread::yield();
    if (meeting_->aborted) return;
    for (int r = 0; r < size_; ++r) {
      if (call.collective == Collective::broadcast && r != call.root) continue;
      const auto* theirs = meeting_->rounds[number].inputs[static_cast<std::size_t>(r)];
      for (std::size_t i = 0; i < call.count; ++i) {
        std::uint32_t value = 0;
        std::memcpy(&value, theirs + i * sizeof value, sizeof value);
        result[i] = static_cast<std::int32_t>(static_cast<std::uint32_t>(result[i]) + value);  // wraps around
      }
    }
    {
      const std::lock_guard lock(meeting_->mutex);
      ++meeting_->rounds[number].left;
    }
    while (!all(number, &Round::left)) std::this_thread::yield();
    std::memcpy(output, result.data(), call.count * sizeof(std::int32_t));
  }

  std::shared_ptr<Meeting> meeting_;
  int rank_, size_, asked_ = 0;
  std::uint64_t number_ = 0;
};

std::string make_id() {
  static std::atomic<int> ids = 0;
  return "meeting " + std::to_string(++ids);
}

}  // namespace
}  // namespace distdl::comm

extern "C" __attribute__((visibility("default"))) const distdl::comm::NcclPlugin distdl_nccl_plugin{
    DISTDL_NCCL_INTERFACE, [] { return std::string("a stand-in"); }, &distdl::comm::make_id,
    [](const std::string& id, int rank, int size) -> distdl::comm::DeviceTransport* {
      return new distdl::comm::FakeTransport(id, rank, size);
    }};
