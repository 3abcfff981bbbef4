// SPDX-License-Identifier: Apache-2.0
// What comm.gpu_transport refuses where there is no NCCL or no GPU. What it does with them: tests/parallel.
#include <cstdio>
#include <cstdlib>

#include <gmock/gmock.h>

#include "tests/comm/connected_threads.hpp"
#include "tests/comm/device/far_accelerator.hpp"
#include <distdl/comm/device/device_transport.hpp>

namespace distdl::comm {
namespace {
using ::testing::AllOf;
using ::testing::HasSubstr;

std::string refusal(const std::string& transport, int ranks, const std::function<void(Communicator&)>& body) {
  Options options = test_options();
  options.gpu_transport = transport;
  try {
    on_threads(ranks, body, options);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

void nothing(Communicator&) {}

/// In a process of its own: other tests load the plug-in for good.
TEST(GpuTransportDeathTest, NamesWhereThePluginIsMissing) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto refused = [] {
    ::setenv("DISTDL_PLUGIN_PATH", "/nonexistent", 1);
    std::fputs(refusal("nccl", 1, nothing).c_str(), stderr);
    std::exit(0);  // NOLINT(concurrency-mt-unsafe): its threads have ended
  };
  EXPECT_EXIT(refused(), ::testing::ExitedWithCode(0),
              AllOf(HasSubstr("needs the plug-in libdistdl_nccl.so"), HasSubstr("/nonexistent"),
                    HasSubstr("DISTDL_PLUGIN_PATH")));
}

class WithPlugin : public ::testing::Test {
 protected:
  void SetUp() override {
    try {
      load_nccl();
    } catch (const ConfigError& error) {
      GTEST_SKIP() << error.what();
    }
  }
};

TEST_F(WithPlugin, KnowsItsVersion) {
  EXPECT_THAT(load_nccl().version(), HasSubstr("NCCL 2."));
}

TEST_F(WithPlugin, RefusesHostMemory) {
  EXPECT_THAT(refusal("nccl", 2, [](Communicator& comm) { comm.use(nullptr); }),
              HasSubstr("the backend does not use a GPU"));
}

TEST_F(WithPlugin, RefusesAnotherDevice) {
  EXPECT_THAT(refusal("nccl", 2, [](Communicator& comm) { comm.use(std::make_shared<FarAccelerator>()); }),
              HasSubstr("supports the memory of NVIDIA's GPUs, not of far: a test"));
}

TEST_F(WithPlugin, AutoDoesWithoutWhereItCannotServe) {
  EXPECT_EQ(refusal("auto", 2,
                    [](Communicator& comm) {
                      const auto device = std::make_shared<FarAccelerator>();
                      comm.use(device);
                      const tensor::Buffer memory = device->allocate(64);
                      CallOptions options;
                      options.order = Order::any;
                      comm.all_reduce(Vector(memory.data(), 16, DataType::float32), options).wait();
                    }),
            "no error");
}

}  // namespace
}  // namespace distdl::comm
