// SPDX-License-Identifier: Apache-2.0
// The communicator on the memory of a real device, where there is one; and the device's arithmetic, on the CPU.
#include <algorithm>
#include <random>

#include <gtest/gtest.h>

#include "tests/comm/connected_threads.hpp"
#include "tests/comm/device/device_cases.hpp"
#include <distdl/comm/reduce/reduce.hpp>
#include <distdl/comm/sum_tree.hpp>
#include <distdl/kernels/backend.hpp>
#include <distdl/kernels/cuda/primitives/reduce_passes.hpp>
#include <distdl/kernels/options.hpp>

namespace distdl::parallel {
namespace {
using comm::DataType;
using comm::Reduction;
using Bytes = std::vector<std::byte>;

constexpr DataType kTypes[] = {DataType::float32,  DataType::float64, DataType::float16,
                               DataType::bfloat16, DataType::int32,   DataType::int64};

/// Runs the bodies that the GPU runs.
struct OnCpu {
  std::size_t count;
  template <class Body>
  void operator()(const Body& body) const {
    for (std::size_t i = 0; i < count; ++i) body(i);
  }
};

/// Any order of reductions that ends in one value.
std::vector<comm::ReduceSource> random_order(const std::vector<Bytes>& operands, std::mt19937& random) {
  std::vector<comm::ReduceSource> sources;
  int depth = 0;
  for (const Bytes& operand : operands) {
    ++depth;
    int reductions = static_cast<int>(random() % static_cast<unsigned>(depth));
    if (&operand == &operands.back() || depth > 20) reductions = depth - 1;
    sources.push_back({operand.data(), reductions});
    depth -= reductions;
  }
  return sources;
}

void expect_same_bits(DataType type, Reduction reduction, int operands, std::size_t results, double scale,
                      std::mt19937& random) {
  constexpr std::size_t kCount = 301;
  std::vector<Bytes> values;
  for (int i = 0; i < operands; ++i) values.push_back(comm::random_values(type, kCount, random()));
  const auto sources = random_order(values, random);
  std::vector<Bytes> expected(results, values[0]), actual(results, values[0]), room(64, values[0]);
  std::vector<void*> expected_targets, actual_targets;
  for (Bytes& bytes : expected) expected_targets.push_back(bytes.data());
  for (Bytes& bytes : actual) actual_targets.push_back(bytes.data());
  comm::reduce(type, reduction, sources, expected_targets, kCount, scale);
  const auto room_of = [&](int i) { return static_cast<void*>(room[static_cast<std::size_t>(i)].data()); };
  for (const auto& pass : kernels::cuda::passes_of(sources, actual_targets, scale, room_of))
    kernels::cuda::reduce_pass(type, reduction, pass, OnCpu{kCount});
  EXPECT_TRUE(actual == expected) << comm::name_of(type) << " " << comm::name_of(reduction) << " of " << operands
                                  << " times " << scale;
}

TEST(DeviceReduce, HasTheBitsOfTheCpusForAnyOrderOfReductions) {
  std::mt19937 random(3);
  for (const DataType type : kTypes)
    for (const Reduction reduction : {Reduction::sum, Reduction::maximum, Reduction::minimum})
      for (const int operands : {2, 3, 7, 128, 129, 300})
        for (const std::size_t results : {1, 2, 3}) expect_same_bits(type, reduction, operands, results, 1, random);
}

TEST(DeviceReduce, ScalesTheSumAsTheCpu) {
  std::mt19937 random(4);
  for (const DataType type : kTypes)
    for (const double scale : {1.0 / 3, 0.25, 1.0 / 12})
      for (const int operands : {1, 2, 5, 200})
        if (comm::is_floating(type)) expect_same_bits(type, Reduction::average, operands, 1, scale, random);
}

/// All ranks take the same GPU, or one each where there are several.
void on_backends(int ranks, const std::function<void(comm::Communicator&, comm::Accelerator&)>& body,
                 const std::string& transport = "ucx") {
  comm::Options options = comm::test_options();
  options.connect_timeout_seconds = 60;
  options.gpu_transport = transport;
  comm::on_threads(
      ranks,
      [&](comm::Communicator& communicator) {
        const auto backend = kernels::make_backend({.backend = "cuda", .device = communicator.rank().value});
        communicator.use(backend->accelerator());
        body(communicator, *backend->accelerator());
      },
      options);
}

class Cuda : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    try {
      kernels::make_backend({.backend = "cuda"});
    } catch (const ConfigError& error) {
      GTEST_SKIP() << error.what();
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Ranks, Cuda, ::testing::Values(1, 2, 3, 4));

TEST_P(Cuda, SumsAsTheHostForEachType) {
  on_backends(GetParam(), [](comm::Communicator& communicator, comm::Accelerator& device) {
    for (const DataType type : kTypes)
      for (const std::size_t count : {0, 1, 4099, 1048577})
        comm::check_sums_on_device(communicator, device, count, type);
  });
}

TEST_P(Cuda, MovesAsTheHost) {
  on_backends(GetParam(), [](comm::Communicator& communicator, comm::Accelerator& device) {
    for (const std::size_t count : {0, 1, 13, 262145, 3000000})
      comm::check_moves_on_device(communicator, device, count);
  });
}

TEST_P(Cuda, SumsPartialSumsOfLeaves) {
  on_backends(GetParam(), [](comm::Communicator& communicator, comm::Accelerator& device) {
    for (const int leaves : {1, 5, 12, 16}) comm::check_leaves_on_device(communicator, device, 700001, leaves);
  });
}

TEST_P(Cuda, BeginsAfterTheBackendsOwnWork) {
  on_backends(GetParam(), [](comm::Communicator& communicator, comm::Accelerator&) {
    constexpr std::size_t kCount = 20'000'000;
    const auto backend = kernels::make_backend({.backend = "cuda", .device = communicator.rank().value});
    communicator.use(backend->accelerator());
    const tensor::Buffer sum = backend->allocate(kCount * sizeof(float)),
                         one = backend->allocate(kCount * sizeof(float));
    auto* const values = static_cast<float*>(sum.data());
    backend->fill(static_cast<float*>(one.data()), kCount, 1);
    for (int i = 0; i < 100; ++i) backend->add(values, static_cast<float*>(one.data()), kCount);
    communicator.all_reduce(comm::Vector(values, kCount, DataType::float32)).wait();
    std::vector<float> host(kCount);
    backend->copy_to_host(host.data(), values, kCount * sizeof(float));
    EXPECT_EQ(std::count(host.begin(), host.end(), 100.0F * static_cast<float>(communicator.size())),
              static_cast<std::ptrdiff_t>(kCount));
  });
}

TEST_P(Cuda, CombinesLongSumsInSeveralPasses) {
  on_backends(1, [](comm::Communicator&, comm::Accelerator& device) {
    std::mt19937 random(5);
    constexpr std::size_t kCount = 100003;
    std::vector<Bytes> values;
    std::vector<tensor::Buffer> memory;
    for (int i = 0; i < 300; ++i) {
      values.push_back(comm::random_values(DataType::float32, kCount, random()));
      memory.push_back(device.allocate(values.back().size()));
      comm::write(device, memory.back().data(), values.back());
    }
    auto sources = random_order(values, random);
    Bytes expected(values[0].size());
    void* target = expected.data();
    comm::reduce(DataType::float32, Reduction::sum, sources, {&target, 1}, kCount);
    for (std::size_t i = 0; i < sources.size(); ++i) sources[i].data = memory[i].data();
    target = memory[0].data();
    device.reduce(DataType::float32, Reduction::sum, sources, {&target, 1}, kCount, 1);
    EXPECT_TRUE(comm::read(device, target, expected.size()) == expected);
  });
}

/// Integers, whose sum has one value in any order.
TEST_P(Cuda, NcclCarriesCollectives) {
  try {
    on_backends(
        GetParam(),
        [](comm::Communicator& communicator, comm::Accelerator& device) {
          for (const std::size_t count : {0, 1, 4099, 3000000}) {
            comm::check_sums_on_device(communicator, device, count, DataType::int32);
            comm::check_moves_on_device(communicator, device, count);
          }
        },
        "nccl");
  } catch (const ConfigError& error) {  // no NCCL, or fewer GPUs than ranks
    GTEST_SKIP() << error.what();
  }
}

}  // namespace
}  // namespace distdl::parallel
