// SPDX-License-Identifier: Apache-2.0
// Collectives on the memory of a device that host code cannot touch: see FarAccelerator.
#include <cstring>
#include <thread>

#include <gmock/gmock.h>

#include "tests/comm/connected_threads.hpp"
#include "tests/comm/device/device_cases.hpp"
#include "tests/comm/device/far_accelerator.hpp"
#include "tests/pace.hpp"
#include <distdl/comm/algorithms/registry.hpp>
#include <distdl/comm/device/device_transfers.hpp>

namespace distdl::comm {
namespace {
using ::testing::AllOf;
using ::testing::HasSubstr;
using Memory = FarAccelerator::Memory;

struct Case {
  int ranks;
  Memory memory;
  int shared_memory_ranks;
};

std::string name_of_case(const ::testing::TestParamInfo<Case>& info) {
  return fmt::format("{}ranks_{}_{}", info.param.ranks, info.param.memory == Memory::hidden ? "staged" : "direct",
                     info.param.shared_memory_ranks ? "network" : "one_node");
}

/// Body with a device per rank.
void on_devices(int ranks, const std::function<void(Communicator&, FarAccelerator&)>& body,
                Memory memory = Memory::hidden, const Options& options = test_options()) {
  on_threads(
      ranks,
      [&](Communicator& comm) {
        const auto device = std::make_shared<FarAccelerator>(memory, 17u + static_cast<unsigned>(comm.rank().value));
        comm.use(device);
        body(comm, *device);
      },
      options);
}

class Devices : public ::testing::TestWithParam<Case> {
 protected:
  static void run(const std::function<void(Communicator&, FarAccelerator&)>& body) {
    Options options = test_options();
    options.shared_memory_ranks = GetParam().shared_memory_ranks;
    on_devices(GetParam().ranks, body, GetParam().memory, options);
  }
};
INSTANTIATE_TEST_SUITE_P(Cases, Devices,
                         ::testing::Values(Case{1, Memory::hidden, 0}, Case{2, Memory::hidden, 0},
                                           Case{3, Memory::hidden, 1}, Case{4, Memory::hidden, 1},
                                           Case{6, Memory::hidden, 0}, Case{2, Memory::visible, 0},
                                           Case{5, Memory::visible, 1}),
                         name_of_case);

TEST_P(Devices, SumAsTheHostForEachType) {
  run([](Communicator& comm, FarAccelerator& device) {
    for (const DataType type : {DataType::float32, DataType::float64, DataType::float16, DataType::bfloat16,
                                DataType::int32, DataType::int64})
      for (const std::size_t count : {0, 1, 4099}) check_sums_on_device(comm, device, count, type);
  });
}

TEST_P(Devices, SumAsTheHostAroundThePiece) {
  run([](Communicator& comm, FarAccelerator& device) {
    const std::size_t piece = kStagingPiece / sizeof(float);
    constexpr Reduction kAverage[] = {Reduction::average};
    for (const std::size_t count : {piece - 1, piece + 1, 2 * piece, 3 * piece + 3})
      check_sums_on_device(comm, device, count, DataType::float32, kAverage);
  });
}

TEST_P(Devices, MoveAsTheHost) {
  run([](Communicator& comm, FarAccelerator& device) {
    const std::size_t piece = kStagingPiece / sizeof(std::int32_t);
    for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{13}, 3 * piece})
      check_moves_on_device(comm, device, count);
  });
}

TEST_P(Devices, SumPartialSumsOfLeaves) {
  run([](Communicator& comm, FarAccelerator& device) {
    for (const int leaves : {1, 5, 12, 16}) check_leaves_on_device(comm, device, 70001, leaves);
  });
}

TEST_P(Devices, HaveSeveralOperationsUnderWay) {
  run([](Communicator& comm, FarAccelerator& device) {
    constexpr std::size_t kOperations = 5, kCount = 300001;
    std::vector<tensor::Buffer> memory;
    std::vector<std::vector<std::byte>> host;
    std::vector<Request> requests;
    for (std::size_t i = 0; i < kOperations; ++i) {
      host.push_back(random_values(DataType::float32, kCount, static_cast<unsigned>(i) * 64 + comm.rank().value));
      memory.push_back(device.allocate(host.back().size()));
      write(device, memory.back().data(), host.back());
    }
    for (std::size_t i = 0; i < kOperations; ++i) {
      requests.push_back(comm.all_reduce(Vector(memory[i].data(), kCount, DataType::float32)));
      requests.push_back(comm.all_reduce(Vector(host[i].data(), kCount, DataType::float32)));
    }
    for (std::size_t i = requests.size(); i-- > 0;) requests[i].wait();
    for (std::size_t i = 0; i < kOperations; ++i)
      EXPECT_TRUE(read(device, memory[i].data(), host[i].size()) == host[i]) << i;
  });
}

TEST_P(Devices, BeginAfterTheCallersOwnWork) {
  run([](Communicator& comm, FarAccelerator& device) {
    constexpr std::size_t kCount = 100003;
    auto values = random_values(DataType::float32, kCount, comm.rank().value);
    const tensor::Buffer memory = device.allocate(values.size());
    for (int i = 0; i < 3; ++i) {
      device.write_late(memory.data(), values, Milliseconds(5));
      comm.all_reduce(Vector(memory.data(), kCount, DataType::float32)).wait();
      comm.all_reduce(Vector(values.data(), kCount, DataType::float32)).wait();
      EXPECT_TRUE(read(device, memory.data(), values.size()) == values);
    }
  });
}

TEST_P(Devices, ServeSplitCommunicators) {
  run([](Communicator& comm, FarAccelerator& device) {
    const auto part = comm.split(comm.rank().value % 2);
    check_sums_on_device(*part, device, 50021, DataType::float64);
  });
}

TEST(Device, EachAlgorithmOfTheNetworkGivesTheSameBits) {
  on_devices(4, [](Communicator& comm, FarAccelerator& device) {
    constexpr std::size_t kCount = 700001;
    auto values = random_values(DataType::float32, kCount, comm.rank().value);
    auto expected = values;
    comm.all_reduce(Vector(expected.data(), kCount, DataType::float32)).wait();
    for (std::string_view algorithm : {"pairwise", "recursive_doubling", "recursive_halving"})
      for (const std::size_t segment : {0, 10000, 262144}) {
        const tensor::Buffer memory = device.allocate(values.size());
        write(device, memory.data(), values);
        CallOptions options;
        options.choice = Choice{.algorithm = algorithm_of(algorithm), .segment = segment};
        comm.all_reduce(Vector(memory.data(), kCount, DataType::float32), options).wait();
        EXPECT_TRUE(read(device, memory.data(), values.size()) == expected)
            << algorithm << " in segments of " << segment;
      }
  });
}

TEST(Device, RingAddsInTheSameOrderAsOnTheHost) {
  on_devices(3, [](Communicator& comm, FarAccelerator& device) {
    constexpr std::size_t kCount = 900001;
    auto values = random_values(DataType::float32, kCount, comm.rank().value);
    const tensor::Buffer memory = device.allocate(values.size());
    write(device, memory.data(), values);
    CallOptions options;
    options.order = Order::any;
    options.choice = Choice{.algorithm = algorithm_of("ring"), .segment = 65536, .order = Order::any};
    comm.all_reduce(Vector(memory.data(), kCount, DataType::float32), options).wait();
    comm.all_reduce(Vector(values.data(), kCount, DataType::float32), options).wait();
    EXPECT_TRUE(read(device, memory.data(), values.size()) == values);
  });
}

TEST(Device, StagingMemoryIsUsedAgain) {
  on_devices(2, [](Communicator& comm, FarAccelerator& device) {
    constexpr std::size_t kCount = 8 << 20;
    const tensor::Buffer memory = device.allocate(kCount);
    const auto once = [&] { comm.broadcast(Vector(memory.data(), kCount, DataType::byte), Rank(0)).wait(); };
    once();
    const std::size_t first = device.staged();
    EXPECT_LE(first, 4 * kStagingPiece);
    for (int i = 0; i < 5; ++i) once();
    EXPECT_EQ(device.staged(), first);
  });
}

template <class Exception>
std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const Exception& error) {
    return error.what();
  }
  return "no error";
}

TEST(Device, RefusesWhatItCannotDo) {
  on_devices(1, [](Communicator& comm, FarAccelerator& device) {
    const tensor::Buffer memory = device.allocate(64);
    std::vector<float> host(16);
    const Vector there(memory.data(), 16, DataType::float32);
    EXPECT_THAT(refusal<ConfigError>([&] { comm.all_reduce(there, host).wait(); }),
                HasSubstr("all-reduce: some operands are in the memory of far: a test, others in the host's"));
    const Vector crooked(static_cast<std::byte*>(memory.data()) + 2, 4, DataType::float32);
    EXPECT_THAT(refusal<ConfigError>([&] { comm.all_reduce(crooked).wait(); }), HasSubstr("elements must be aligned"));
    CallOptions shared;
    shared.choice = Choice{algorithm_of("shared_direct")};
    EXPECT_THAT(refusal<ConfigError>([&] { comm.all_reduce(there, shared).wait(); }),
                HasSubstr("the algorithm shared_direct needs the host's shared memory"));
  });
}

TEST(Device, RefusesMessagesFromItsMemory) {
  on_devices(2, [](Communicator& comm, FarAccelerator& device) {
    const tensor::Buffer memory = device.allocate(64);
    const std::span bytes(static_cast<std::byte*>(memory.data()), 64);
    EXPECT_THAT(refusal<ConfigError>([&] { comm.send(bytes, Rank(1 - comm.rank().value), 1).wait(); }),
                HasSubstr("use a collective"));
  });
}

TEST(Device, RefusesThatOneRankAloneReachesForItsMemory) {
  on_devices(2, [](Communicator& comm, FarAccelerator& device) {
    const tensor::Buffer memory = device.allocate(64);
    const std::span bytes(static_cast<std::byte*>(memory.data()), 64);
    const Rank other(1 - comm.rank().value);
    std::vector<std::byte> host(64);
    const auto expect_refused = [](const std::function<void()>& call) {
      EXPECT_THAT(refusal<ConfigError>(call), HasSubstr("is in the memory of a device"));
    };
    expect_refused([&] { (void)comm.expose(bytes); });
    expect_refused([&] { comm.send_message(other, 1, "", bytes).wait(); });
    RemoteMemory remote = comm.expose(host);
    expect_refused([&] { remote.put(bytes, other, 0).wait(); });
    expect_refused([&] { remote.get(bytes, other, 0).wait(); });
    remote.put(std::span(host).first(0), other, 0).wait();
    comm.barrier().wait();
  });
}

TEST(Device, AllRanksHaveOneOrNone) {
  on_threads(3, [](Communicator& comm) {
    const auto device = comm.rank() == Rank(1) ? nullptr : std::make_shared<FarAccelerator>();
    EXPECT_THAT(refusal<ConfigError>([&] { comm.use(device); }),
                AllOf(HasSubstr("rank 0 ("), HasSubstr("rank 1 ("), HasSubstr("give all ranks a device, or none")));
    comm.use(nullptr);
    comm.barrier().wait();
  });
}

TEST(Device, OneThatHangsIsNamedAtTheDeadline) {
  Options options = test_options();
  options.timeout_seconds = paced(0.5);
  const auto body = [](Communicator& comm, FarAccelerator& device) {
    const tensor::Buffer memory = device.allocate(4096);
    const Vector values(memory.data(), 1024, DataType::float32);
    comm.all_reduce(values).wait();
    if (comm.rank() == Rank(1)) device.freeze(paced(Milliseconds(1500)));
    const Stopwatch stopwatch;
    const std::string text = refusal<PeerLost>([&] { comm.all_reduce(values).wait(); });
    if (comm.rank() == Rank(0)) {
      EXPECT_THAT(text, HasSubstr("rank 1 ("));
      EXPECT_LT(stopwatch.seconds(), paced(2.5));
    } else {
      EXPECT_THAT(text, ::testing::AnyOf(HasSubstr("its own device (far: a test)"), HasSubstr("gave up this rank")));
    }
  };
  EXPECT_ANY_THROW(on_devices(2, body, Memory::hidden, options));
}

/// A rank leaves while data are on their way; afterwards the others' memory is theirs again, and a new communicator
/// works.
TEST(Device, LossWhileStaging) {
  for (int seed = 0; seed < 8; ++seed) {
    const auto body = [seed](Communicator& comm, FarAccelerator& device) {
      constexpr std::size_t kCount = 1 << 20;
      auto values = random_values(DataType::float32, kCount, comm.rank().value);
      tensor::Buffer memory = device.allocate(values.size());
      write(device, memory.data(), values);
      check_moves_on_device(comm, device, 64);  // all know each other, and so hear of a loss from whom it hit
      Request request = comm.all_reduce(Vector(memory.data(), kCount, DataType::float32));
      if (comm.rank() == Rank(2)) {
        for (int i = 0; i < seed * seed * 40; ++i)
          if (request.test()) break;
        comm.abort("enough of it");
        request.cancel();
        return;
      }
      const Stopwatch stopwatch;
      const std::string text = refusal<PeerLost>([&] {
        request.wait();
        comm.barrier().wait();
      });
      EXPECT_THAT(text, HasSubstr("rank 2 (")) << seed;
      EXPECT_LT(stopwatch.seconds(), paced(10));
      request.cancel();
      write(device, memory.data(), values);
      EXPECT_TRUE(read(device, memory.data(), values.size()) == values) << "the device still works on it";
    };
    try {
      on_devices(3, body);
    } catch (const Error&) {  // close() of those that have lost a peer
    }
  }
  on_devices(3, [](Communicator& comm, FarAccelerator& device) {
    check_sums_on_device(comm, device, 70001, DataType::float32);
  });
}

}  // namespace
}  // namespace distdl::comm
