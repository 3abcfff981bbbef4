// SPDX-License-Identifier: Apache-2.0
// Collectives that a library does, with a stand-in for NCCL: fake_nccl.cpp. It adds int32 values only.
#include <cstdlib>
#include <cstring>
#include <thread>

#include <gmock/gmock.h>

#include "tests/comm/connected_threads.hpp"
#include "tests/comm/device/device_cases.hpp"
#include "tests/comm/device/far_accelerator.hpp"
#include "tests/pace.hpp"

namespace distdl::comm {
namespace {

void with_library(int ranks, const std::string& transport,
                  const std::function<void(Communicator&, FarAccelerator&)>& body) {
  ::setenv("DISTDL_PLUGIN_PATH", DISTDL_FAKE_NCCL_DIR, 1);
  Options options = test_options();
  options.gpu_transport = transport;
  on_threads(
      ranks,
      [&](Communicator& comm) {
        const auto device = std::make_shared<FarAccelerator>(FarAccelerator::Memory::hidden,
                                                             5u + static_cast<unsigned>(comm.rank().value));
        device->offer_library_queue();
        comm.use(device);
        body(comm, *device);
      },
      options);
}

TEST(Library, SumsAndBroadcastsInTheOrderOfTheCalls) {
  with_library(3, "nccl", [](Communicator& comm, FarAccelerator& device) {
    constexpr std::size_t kCount = 5001, kOperations = 4;
    std::vector<std::vector<std::byte>> host;
    std::vector<tensor::Buffer> memory;
    std::vector<Request> requests;
    for (std::size_t i = 0; i < kOperations; ++i) {
      host.push_back(random_values(DataType::int32, kCount, static_cast<unsigned>(i) * 8 + comm.rank().value));
      memory.push_back(device.allocate(host[i].size()));
      device.write_late(memory[i].data(), host[i], Milliseconds(2));
      const Vector there(memory[i].data(), kCount, DataType::int32), here(host[i].data(), kCount, DataType::int32);
      requests.push_back(i % 2 ? comm.broadcast(there, Rank(1)) : comm.all_reduce(there));
      requests.push_back(i % 2 ? comm.broadcast(here, Rank(1)) : comm.all_reduce(here));
    }
    for (Request& request : requests) request.wait();
    for (std::size_t i = 0; i < kOperations; ++i)
      EXPECT_TRUE(read(device, memory[i].data(), host[i].size()) == host[i]) << i;
  });
}

TEST(Library, AddsPartialSumsOfARankFirst) {
  with_library(2, "nccl", [](Communicator& comm, FarAccelerator& device) {
    constexpr std::size_t kCount = 3001;
    const Leaves leaves{6, {{0, 5}, {5, 1}}};
    const auto nodes = cover(leaves.ranges[static_cast<std::size_t>(comm.rank().value)], 6);
    std::vector<std::vector<std::byte>> host;
    std::vector<tensor::Buffer> memory;
    std::vector<ConstVector> here, there;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      host.push_back(random_values(DataType::int32, kCount, static_cast<unsigned>(i) * 8 + comm.rank().value));
      memory.push_back(device.allocate(host[i].size()));
      write(device, memory[i].data(), host[i]);
    }
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      here.emplace_back(host[i].data(), kCount, DataType::int32);
      there.emplace_back(memory[i].data(), kCount, DataType::int32);
    }
    comm.all_reduce(leaves, there, Vector(memory[0].data(), kCount, DataType::int32)).wait();
    comm.all_reduce(leaves, here, Vector(host[0].data(), kCount, DataType::int32)).wait();
    EXPECT_TRUE(read(device, memory[0].data(), host[0].size()) == host[0]);
  });
}

TEST(Library, AutoLeavesPromisedOrdersToTheSchedules) {
  with_library(2, "auto", [](Communicator& comm, FarAccelerator& device) {
    for (const DataType type : {DataType::float32, DataType::float64})  // the stand-in would get these wrong
      check_sums_on_device(comm, device, 4099, type);
  });
}

TEST(Library, IsAbortedWithALoss) {
  const auto body = [](Communicator& comm, FarAccelerator& device) {
    const tensor::Buffer memory = device.allocate(4096);
    const Vector values(memory.data(), 1024, DataType::int32);
    comm.all_reduce(values).wait();
    if (comm.rank() == Rank(1)) {
      std::this_thread::sleep_for(Milliseconds(100));
      return comm.abort("enough of it");
    }
    const Stopwatch stopwatch;
    EXPECT_THROW(comm.all_reduce(values).wait(), PeerLost);
    EXPECT_LT(stopwatch.seconds(), paced(5));
  };
  EXPECT_ANY_THROW(with_library(2, "nccl", body));
}

}  // namespace
}  // namespace distdl::comm
