// SPDX-License-Identifier: Apache-2.0
#include <charconv>
#include <filesystem>
#include <vector>

#include <dlfcn.h>

#include <distdl/base/env.hpp>
#include <distdl/base/handles.hpp>
#include <distdl/base/log.hpp>
#include <distdl/slurm/plugin.hpp>

namespace distdl::slurm {
namespace {
void close_library(void* library) noexcept {
  ::dlclose(library);
}
using Library = UniqueHandle<void*, &close_library>;
using EndTime = long long (*)(unsigned job);

/// Beside the program in a build tree, under ../lib*/distdl in an installed one.
Library open_plugin() {
  std::error_code error;
  auto program = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  std::vector<std::filesystem::path> places{program / "../lib", program / "../" DISTDL_PLUGIN_DIR};
  if (auto given = env("DISTDL_PLUGIN_PATH")) places.insert(places.begin(), *given);
  for (const auto& place : places) {
    auto file = place / "libdistdl_slurm.so";
    if (!std::filesystem::exists(file, error)) continue;
    Library library(::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL));
    if (library) return library;
    log(Severity::debug, "cannot load \"{}\": {}", file.string(), ::dlerror());
  }
  return {};
}
}  // namespace

std::optional<std::chrono::system_clock::time_point> plugin_end_time(const std::string& job) {
  unsigned number = 0;
  auto [end, error] = std::from_chars(job.data(), job.data() + job.size(), number);
  if (error != std::errc{} || end != job.data() + job.size()) return std::nullopt;
  static void* const library = open_plugin().release();  // never closed: libslurm keeps threads and atexit handlers
  if (!library) return std::nullopt;
  auto* end_time = reinterpret_cast<EndTime>(::dlsym(library, "distdl_slurm_end_time"));
  long long seconds = end_time ? end_time(number) : 0;
  if (seconds <= 0) return std::nullopt;
  return std::chrono::system_clock::from_time_t(seconds);
}

}  // namespace distdl::slurm
