// SPDX-License-Identifier: Apache-2.0
#include <charconv>

#include <dlfcn.h>

#include <distdl/base/log.hpp>
#include <distdl/base/plugin.hpp>
#include <distdl/slurm/answers.hpp>
#include <distdl/slurm/plugin.hpp>

namespace distdl::slurm {
namespace {
using EndTime = long long (*)(unsigned job);

/// nullptr if it cannot be had. Never closed: libslurm keeps threads and atexit handlers.
EndTime load_end_time() {
  auto file = find_plugin("libdistdl_slurm.so");
  if (!file) return nullptr;
  void* library = ::dlopen(file->c_str(), RTLD_NOW | RTLD_LOCAL);
  void* end_time = library ? ::dlsym(library, "distdl_slurm_end_time") : nullptr;
  if (!end_time) log(Severity::debug, "cannot load \"{}\": {}", file->string(), loader_error());
  return reinterpret_cast<EndTime>(end_time);
}
}  // namespace

std::optional<std::chrono::system_clock::time_point> plugin_end_time(const std::string& job) {
  unsigned number = 0;
  auto [end, error] = std::from_chars(job.data(), job.data() + job.size(), number);
  if (error != std::errc{} || end != job.data() + job.size()) return std::nullopt;
  static const EndTime end_time = load_end_time();
  long long seconds = end_time ? end_time(number) : 0;
  return time_from(seconds);
}

}  // namespace distdl::slurm
