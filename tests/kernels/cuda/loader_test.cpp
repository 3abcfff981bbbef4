// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <fstream>

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <distdl/base/errors.hpp>
#include <distdl/kernels/cuda/loader.hpp>
#include <distdl/kernels/options.hpp>

namespace distdl::kernels::cuda::test {
namespace {
using testing::AllOf;
using testing::HasSubstr;

template <class Call>
std::string message_of(Call&& call) {
  try {
    call();
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::config);
    return error.what();
  }
  return "no error";
}

bool driver_is_here() {
  return dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL) != nullptr;
}

/// Sets DISTDL_PLUGIN_PATH for one test.
class PluginPath {
 public:
  explicit PluginPath(const std::string& value) { setenv("DISTDL_PLUGIN_PATH", value.c_str(), 1); }
  ~PluginPath() { unsetenv("DISTDL_PLUGIN_PATH"); }
};

TEST(CudaLoader, WithoutADriverSaysSo) {
  if (driver_is_here()) GTEST_SKIP() << "there is an NVIDIA driver here";
  EXPECT_THAT(message_of([] { make_backend({.backend = "cuda"}); }),
              AllOf(HasSubstr("no NVIDIA driver on this machine"), HasSubstr("libcuda.so.1")));
}

TEST(CudaLoader, AutoTakesTheCpuWithoutADriver) {
  if (driver_is_here()) GTEST_SKIP() << "there is an NVIDIA driver here";
  EXPECT_NE(make_backend({})->name(), "cuda");
}

TEST(CudaLoader, FindsThePluginOfThisBuild) {
  EXPECT_TRUE(std::filesystem::equivalent(own_plugin(), DISTDL_CUDA_PLUGIN));
}

TEST(CudaLoader, PluginThatIsNowhereNamesThePlaces) {
  PluginPath path("/nowhere/a:/nowhere/b");
  EXPECT_THAT(
      message_of([] { own_plugin(); }),
      AllOf(HasSubstr("/nowhere/a/libdistdl_cuda.so, /nowhere/b/libdistdl_cuda.so"), HasSubstr("DISTDL_PLUGIN_PATH")));
}

TEST(CudaLoader, PluginThatCannotBeLoadedNamesTheReason) {
  std::string file = testing::TempDir() + "/libdistdl_cuda.so";
  std::ofstream(file) << "no library";
  EXPECT_THAT(message_of([&] { load_plugin(file); }), AllOf(HasSubstr(file), HasSubstr("cuDNN 9")));
}

TEST(CudaLoader, AnotherLibraryIsNoPlugin) {
  EXPECT_THAT(message_of([] { load_plugin(DISTDL_NOT_A_PLUGIN); }), HasSubstr("is not a plug-in of distdl"));
}

TEST(CudaLoader, PluginOfAnotherVersionIsRefused) {
  EXPECT_THAT(message_of([] { load_plugin(DISTDL_OTHER_PLUGIN); }),
              AllOf(HasSubstr("0.0.1-other"), HasSubstr("install both from one build")));
}

// The real plug-in with cuBLAS and cuDNN, as far as it gets here.
TEST(CudaPlugin, MakesABackendOrNamesCudasReason) {
  const Plugin& plugin = load_plugin(DISTDL_CUDA_PLUGIN);
  std::string message = message_of([&] {
    std::unique_ptr<Backend> backend(plugin.make({.backend = "cuda", .device = 0}));
    EXPECT_EQ(backend->name(), "cuda");
  });
  if (driver_is_here()) GTEST_SKIP() << "there is an NVIDIA driver here: " << message;
  EXPECT_THAT(message, AllOf(HasSubstr("the backend \"cuda\" cannot run: there is no NVIDIA driver"),
                             HasSubstr("cudaErrorInsufficientDriver")));
}
}  // namespace
}  // namespace distdl::kernels::cuda::test
