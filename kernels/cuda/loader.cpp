// SPDX-License-Identifier: Apache-2.0
#include <string_view>

#include <dlfcn.h>

#include <distdl/base/env.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/kernels/cuda/loader.hpp>
#include <distdl/kernels/registry.hpp>

namespace distdl::kernels {
namespace cuda {
namespace {
namespace fs = std::filesystem;

/// The folder of the program or shared library that holds this code.
fs::path own_folder() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&own_folder), &info) == 0 || info.dli_fname == nullptr) return {};
  std::error_code error;
  fs::path file = fs::canonical(info.dli_fname, error);
  if (error) file = fs::canonical("/proc/self/exe", error);  // started by a bare name: found through PATH
  return file.parent_path();
}

std::vector<fs::path> folders_in(std::string_view list) {
  std::vector<fs::path> folders;
  while (!list.empty()) {
    auto colon = list.find(':');
    if (auto folder = list.substr(0, colon); !folder.empty()) folders.emplace_back(folder);
    list = colon == std::string_view::npos ? std::string_view{} : list.substr(colon + 1);
  }
  return folders;
}
}  // namespace

void require_driver() {
  // Never closed: the driver does not expect to be unloaded.
  if (dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL)) return;
  throw ConfigError(
      fmt::format("the backend \"cuda\" cannot run: there is no NVIDIA driver on this machine ({}); run on a node with "
                  "a GPU, or take kernels.backend = \"auto\"",
                  dlerror()));
}

std::vector<fs::path> plugin_candidates() {
  std::vector<fs::path> folders;
  if (auto list = env("DISTDL_PLUGIN_PATH")) {
    folders = folders_in(*list);
  } else {
    fs::path own = own_folder();
    folders = {own / "distdl", own / "../lib/distdl", own / "../" DISTDL_LIBDIR "/distdl",
               fs::path(DISTDL_FULL_LIBDIR) / "distdl"};
  }
  std::vector<fs::path> files;
  for (const auto& folder : folders) files.push_back((folder / kPluginFile).lexically_normal());
  return files;
}

fs::path find_plugin(const std::vector<fs::path>& candidates) {
  std::string looked;
  for (const auto& file : candidates) {
    std::error_code error;
    if (fs::is_regular_file(file, error)) return file;
    looked += (looked.empty() ? "" : ", ") + file.string();
  }
  throw ConfigError(fmt::format(
      "the backend \"cuda\" needs its plug-in {}, which is not in any of: {}; install distdl with CUDA, or name the "
      "plug-in's folder in DISTDL_PLUGIN_PATH",
      kPluginFile, looked));
}

const Plugin& load_plugin(const fs::path& file) {
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library)
    throw ConfigError(fmt::format(
        "cannot load the plug-in \"{}\" ({}); it needs the libraries of the CUDA toolkit and of cuDNN 9: install them, "
        "load their modules, or name their folders in LD_LIBRARY_PATH",
        file.string(), dlerror()));
  const auto* plugin = static_cast<const Plugin*>(dlsym(library, kPluginSymbol));
  require(plugin != nullptr,
          "\"{}\" is not a plug-in of distdl ({}); correct DISTDL_PLUGIN_PATH or install distdl again", file.string(),
          dlerror());
  require(plugin->interface == std::string_view(DISTDL_KERNELS_INTERFACE),
          "the plug-in \"{}\" belongs to another distdl: its interface is {}, this program's is {}; install both from "
          "one build",
          file.string(), plugin->interface, DISTDL_KERNELS_INTERFACE);
  return *plugin;
}

namespace {
const Plugin& load_own_plugin() {
  try {
    return load_plugin(find_plugin(plugin_candidates()));
  } catch (const ConfigError& error) {
    // The backend "auto" goes on with the CPU and says nothing more.
    log(Severity::warning, "the GPU cannot be used: {}", error.what());
    throw;
  }
}
}  // namespace
}  // namespace cuda

bool cuda_is_built() {
  return true;
}

std::unique_ptr<Backend> make_cuda_backend(const Options& options) {
  cuda::require_driver();
  static const cuda::Plugin& plugin = cuda::load_own_plugin();
  Options with_place = options;
  if (options.device < 0) with_place.device = env_integer("SLURM_LOCALID").value_or(0);
  return std::unique_ptr<Backend>(plugin.make(with_place));
}

}  // namespace distdl::kernels
