// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <cstring>
#include <filesystem>

#include <sys/resource.h>

#include <distdl/base/errors.hpp>
#include <distdl/base/shortage.hpp>

namespace distdl {
namespace {
/// Limits of the process or the machine that may have caused this errno; empty: none is known.
std::string limits_behind(int number) {
  switch (number) {
    case EMFILE:
      return limit_text(RLIMIT_NOFILE, "this process may have {} files open (ulimit -n)");
    case ENFILE:
      return "the machine has as many files open as fs.file-max allows";
    case EFBIG:
      return limit_text(RLIMIT_FSIZE, "a file of this process may have {} KiB (ulimit -f)", 1024);
    case ENOMEM: {
      const auto addresses = limit_text(RLIMIT_AS, "this process may use {} KiB of addresses (ulimit -v)", 1024);
      const auto data = limit_text(RLIMIT_DATA, "this process may use {} KiB of data (ulimit -d)", 1024);
      return addresses + (addresses.empty() || data.empty() ? "" : ", ") + data;
    }
    default:
      return "";
  }
}
}  // namespace

ExitCode exit_code_of(const std::exception& error) {
  const auto* ours = dynamic_cast<const Error*>(&error);
  if (ours != nullptr) return ours->exit_code();
  if (is_shortage(error)) return ExitCode::config;
  const bool is_about_path = dynamic_cast<const std::filesystem::filesystem_error*>(&error) != nullptr;
  return is_about_path ? ExitCode::storage : ExitCode::internal;
}

std::string errno_text(int number) {
  if (number == 0) return "the cause is unknown";  // "Success" would be none
  const char* name = strerrorname_np(number);
  const char* text = strerrordesc_np(number);
  const std::string limits = limits_behind(number);
  return fmt::format("{} ({}){}{}", text ? text : "unknown error", name ? name : std::to_string(number),
                     limits.empty() ? "" : "; ", limits);
}

int last_errno() noexcept {
  return errno;
}

std::string limit_text(int resource, const char* format, unsigned long unit) {
  struct rlimit limit {};
  if (::getrlimit(static_cast<__rlimit_resource>(resource), &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return "";
  return fmt::format(fmt::runtime(format), limit.rlim_cur / unit);
}

}  // namespace distdl
