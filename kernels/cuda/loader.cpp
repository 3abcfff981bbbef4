// SPDX-License-Identifier: Apache-2.0
#include <string_view>

#include <dlfcn.h>
#include <fmt/ranges.h>

#include <distdl/base/env.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/base/plugin.hpp>
#include <distdl/kernels/cuda/loader.hpp>
#include <distdl/kernels/cuda/nvtx_ranges.hpp>
#include <distdl/kernels/options.hpp>
#include <distdl/kernels/registry/registry.hpp>

namespace distdl::kernels {
namespace cuda {

void require_driver() {
  // Never closed: the driver does not expect to be unloaded.
  if (::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL)) return;
  throw BackendUnavailable(
      fmt::format("the backend \"cuda\" cannot run: there is no NVIDIA driver on this machine ({}); run on a node with "
                  "a GPU, or set kernels.backend = \"auto\"",
                  loader_error()));
}

std::filesystem::path own_plugin() {
  if (auto file = find_plugin(kPluginFile)) return *file;
  std::vector<std::string> looked;
  for (const auto& candidate : plugin_candidates(kPluginFile)) looked.push_back(candidate.string());
  throw BackendUnavailable(fmt::format(
      "the backend \"cuda\" needs its plug-in {}, which is not in any of: {}; install distdl with CUDA, or name the "
      "plug-in's folder in DISTDL_PLUGIN_PATH",
      kPluginFile, fmt::join(looked, ", ")));
}

const Plugin& load_plugin(const std::filesystem::path& file) {
  void* library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library)
    throw BackendUnavailable(fmt::format(
        "cannot load the plug-in \"{}\" ({}); it needs the libraries of the CUDA toolkit and of cuDNN 9: install them, "
        "load their modules, or add their folders to LD_LIBRARY_PATH",
        file.string(), loader_error()));
  const auto* plugin = static_cast<const Plugin*>(::dlsym(library, kPluginSymbol));
  if (!plugin)
    throw ConfigError(
        fmt::format("\"{}\" is not a plug-in of distdl ({}); correct DISTDL_PLUGIN_PATH or install distdl again",
                    file.string(), loader_error()));
  require(
      plugin->interface == std::string_view(DISTDL_KERNELS_INTERFACE),
      "the plug-in \"{}\" belongs to another distdl: its interface is {}, but this program's is {}; install both from "
      "one build",
      file.string(), plugin->interface, DISTDL_KERNELS_INTERFACE);
  return *plugin;
}
}  // namespace cuda

bool cuda_is_built() {
  return true;
}

std::unique_ptr<Backend> make_cuda_backend(const Options& options) {
  cuda::require_driver();
  try {
    static const cuda::Plugin& plugin = cuda::load_plugin(cuda::own_plugin());
    cuda::show_spans_as_nvtx_ranges();
    Options with_place = options;
    if (options.device < 0) with_place.device = env_integer("SLURM_LOCALID").value_or(0);
    return std::unique_ptr<Backend>(plugin.make(with_place));
  } catch (const BackendUnavailable& error) {
    // There is a driver, so the user may have expected the GPU to be used.
    if (options.backend == "auto") log(Severity::warning, "the GPU cannot be used: {}", error.what());
    throw;
  }
}

}  // namespace distdl::kernels
