// SPDX-License-Identifier: Apache-2.0
#include <string_view>

#include <dlfcn.h>
#include <link.h>

#include <distdl/base/env.hpp>
#include <distdl/base/plugin.hpp>

namespace distdl {
namespace {
namespace fs = std::filesystem;

/// The folder of the program or shared library that holds this code.
fs::path own_folder() {
  Dl_info info{};
  void* map = nullptr;
  const auto* here = reinterpret_cast<const void*>(&own_folder);
  std::string file;  // empty for the program: the loader knows it by argv[0] only, which may be a bare name
  if (::dladdr1(here, &info, &map, RTLD_DL_LINKMAP) != 0) file = static_cast<const link_map*>(map)->l_name;
  std::error_code error;
  return fs::canonical(file.empty() ? "/proc/self/exe" : file, error).parent_path();
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

std::vector<fs::path> plugin_candidates(const std::string& file) {
  std::vector<fs::path> folders;
  if (auto list = env("DISTDL_PLUGIN_PATH")) {
    folders = folders_in(*list);
  } else {
    static const fs::path own = own_folder();
    folders = {own / "distdl", own / "../lib/distdl", own / "../" DISTDL_LIBDIR "/distdl",
               fs::path(DISTDL_FULL_LIBDIR) / "distdl"};
  }
  std::vector<fs::path> files;
  files.reserve(folders.size());
  for (const auto& folder : folders) files.push_back((folder / file).lexically_normal());
  return files;
}

std::optional<fs::path> find_plugin(const std::string& file) {
  std::error_code error;
  for (auto& candidate : plugin_candidates(file))
    if (fs::is_regular_file(candidate, error)) return std::move(candidate);
  return std::nullopt;
}

std::string loader_error() {
  const char* text = ::dlerror();  // NOLINT(concurrency-mt-unsafe): glibc keeps one per thread
  return text ? text : "the reason is unknown";
}

}  // namespace distdl
