// SPDX-License-Identifier: Apache-2.0
#include <cerrno>

#include <unistd.h>

#include <distdl/base/env.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/files/temporary_folder.hpp>

namespace distdl {

std::filesystem::path temporary_folder() {
  constexpr const char* kUsual = "/tmp";
  const auto wanted = env("TMPDIR");
  if (!wanted) return kUsual;
  std::error_code error;
  const bool is_folder = std::filesystem::is_directory(*wanted, error);
  const int problem = error                                         ? error.value()
                      : !is_folder                                  ? ENOTDIR
                      : ::access(wanted->c_str(), W_OK | X_OK) == 0 ? 0
                                                                    : errno;
  if (problem == 0) return *wanted;
  log(Severity::warning, "TMPDIR is \"{}\", which cannot be used: {}; {} is used instead", *wanted, errno_text(problem),
      kUsual);
  return kUsual;
}

}  // namespace distdl
