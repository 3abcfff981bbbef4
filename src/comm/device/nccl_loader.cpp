// SPDX-License-Identifier: Apache-2.0
#include <string_view>

#include <dlfcn.h>
#include <fmt/ranges.h>

#include <distdl/base/errors.hpp>
#include <distdl/base/plugin.hpp>
#include <distdl/comm/device/device_transport.hpp>

namespace distdl::comm {
namespace {

std::string where_looked() {
  std::vector<std::string> looked;
  for (const auto& candidate : plugin_candidates(kNcclFile)) looked.push_back(candidate.string());
  return fmt::format("{}", fmt::join(looked, ", "));
}

const NcclPlugin* load() {
  const auto file = find_plugin(kNcclFile);
  require(file.has_value(),
          "comm.gpu_transport \"nccl\" needs the plug-in {}, which is not in any of: {}; install distdl where NCCL is, "
          "name the plug-in's folder in DISTDL_PLUGIN_PATH, or set \"auto\"",
          kNcclFile, where_looked());
  void* library = ::dlopen(file->c_str(), RTLD_NOW | RTLD_LOCAL);
  require(library != nullptr,
          "cannot load the plug-in \"{}\" ({}); it needs the library libnccl.so.2: install it, load its module, add "
          "its folder to LD_LIBRARY_PATH, or set comm.gpu_transport = \"auto\"",
          file->string(), library ? "" : loader_error());
  const auto* plugin = static_cast<const NcclPlugin*>(::dlsym(library, kNcclSymbol));
  require(plugin && plugin->interface == std::string_view(DISTDL_NCCL_INTERFACE),
          "the plug-in \"{}\" belongs to another distdl; install both from one build", file->string());
  return plugin;
}

}  // namespace

const NcclPlugin& load_nccl() {
  static const NcclPlugin* const plugin = load();
  return *plugin;
}

}  // namespace distdl::comm
