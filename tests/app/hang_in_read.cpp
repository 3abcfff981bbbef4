// SPDX-License-Identifier: Apache-2.0
// Preloaded by why_test.py and recovery_test.py: while a file "hang-<host>-<pid>" lies in the working folder, this
// process waits in pread(), as on a file system that does not answer. Nodes count processes each for itself.
#include <string>

#include <dlfcn.h>
#include <sys/types.h>
#include <unistd.h>

extern "C" [[gnu::visibility("default")]] ssize_t pread(int descriptor, void* bytes, std::size_t count, off_t offset) {
  using Read = ssize_t (*)(int, void*, std::size_t, off_t);
  static const auto original = reinterpret_cast<Read>(dlsym(RTLD_NEXT, "pread"));
  static const std::string file = [] {
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    return "hang-" + std::string(host) + "-" + std::to_string(getpid());
  }();
  while (access(file.c_str(), F_OK) == 0) usleep(10000);
  return original(descriptor, bytes, count, offset);
}
