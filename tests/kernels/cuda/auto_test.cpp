// SPDX-License-Identifier: Apache-2.0
// What "auto" does where there is a driver. A process loads the plug-in once, hence one test of its own program.
#include <cstdlib>

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <distdl/kernels/backend.hpp>
#include <distdl/kernels/options.hpp>
#include <distdl/kernels/unavailable.hpp>

namespace distdl::kernels {
namespace {
using testing::HasSubstr;

std::string name_or_error(std::int64_t device) {
  try {
    return make_backend({.device = device})->name();
  } catch (const BackendUnavailable& error) {
    return std::string("unavailable: ") + error.what();
  } catch (const ConfigError& error) {
    return error.what();
  }
}

TEST(AutoBackend, TakesTheCpuOnlyIfThereIsNoGpu) {
  ASSERT_NE(dlopen(DISTDL_FAKE_DRIVER, RTLD_NOW | RTLD_LOCAL), nullptr) << dlerror();  // from now on it is libcuda.so.1
  const std::string cpu = built_backends().at(1);
  setenv("DISTDL_PLUGIN_PATH", "/nowhere", 1);
  EXPECT_EQ(name_or_error(0), cpu);
  setenv("DISTDL_PLUGIN_PATH", DISTDL_FAKE_PLUGIN_DIR, 1);
  EXPECT_EQ(name_or_error(1), cpu);
  EXPECT_EQ(name_or_error(0), "the GPU's memory is full");
}
}  // namespace
}  // namespace distdl::kernels
