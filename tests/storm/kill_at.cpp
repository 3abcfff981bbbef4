// SPDX-License-Identifier: Apache-2.0
// A library to be loaded before all others (LD_PRELOAD). It kills at a moment that no signal from outside could meet:
//   KILL_AT=OPERATION:WHEN:TEXT   OPERATION write, rename or mkdir; WHEN before or after; TEXT is in the bytes that are
//                                 written, or in the new name
//   KILL_COUNT=,M,N,              at the M-th and the N-th such moment of all processes together, which count in
//   KILL_FILE KILL_WHOM=group               the process group, or "self"
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string>

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace {
template <class Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

using Write = ssize_t(int, const void*, size_t);

/// Whether this is the moment. Each call counts one, in a file that all processes append to.
bool is_the_moment() {
  const int file = ::open(variable("KILL_FILE").c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) return false;
  static auto* const write = real<Write>("write");
  const bool counted = write(file, "x", 1) == 1;
  const off_t count = ::lseek(file, 0, SEEK_CUR);
  ::close(file);
  return counted && variable("KILL_COUNT").find("," + std::to_string(count) + ",") != std::string::npos;
}

void kill_if(const char* operation, const char* when, const void* text, size_t size) {
  const std::string at = variable("KILL_AT"), begin = std::string(operation) + ":" + when + ":";
  if (at.compare(0, begin.size(), begin) != 0) return;
  const std::string wanted = at.substr(begin.size());
  if (::memmem(text, size, wanted.data(), wanted.size()) == nullptr || !is_the_moment()) return;
  ::kill(variable("KILL_WHOM") == "group" ? 0 : ::getpid(), SIGKILL);
  ::pause();
}

template <class Call>
auto watched(const char* operation, const void* text, size_t size, Call&& call) {
  kill_if(operation, "before", text, size);
  const auto result = call();
  if (result >= 0) kill_if(operation, "after", text, size);
  return result;
}
}  // namespace

extern "C" {
[[gnu::visibility("default")]] ssize_t write(int file, const void* bytes, size_t size) {
  static auto* const next = real<Write>("write");
  return watched("write", bytes, size, [&] { return next(file, bytes, size); });
}

[[gnu::visibility("default")]] int renameat(int from, const char* name, int to, const char* fresh) {
  static auto* const next = real<int(int, const char*, int, const char*)>("renameat");
  return watched("rename", fresh, std::strlen(fresh), [&] { return next(from, name, to, fresh); });
}

[[gnu::visibility("default")]] int renameat2(int from, const char* name, int to, const char* fresh, unsigned flags) {
  static auto* const next = real<int(int, const char*, int, const char*, unsigned)>("renameat2");
  return watched("rename", fresh, std::strlen(fresh), [&] { return next(from, name, to, fresh, flags); });
}

[[gnu::visibility("default")]] int mkdirat(int folder, const char* name, mode_t mode) {
  static auto* const next = real<int(int, const char*, mode_t)>("mkdirat");
  return watched("mkdir", name, std::strlen(name), [&] { return next(folder, name, mode); });
}
}
