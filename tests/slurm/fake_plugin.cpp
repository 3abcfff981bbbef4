// SPDX-License-Identifier: Apache-2.0
// What libdistdl_slurm.so exports, without libslurm: an answer is the text of a file "kind-name" in a folder. A text
// that begins with "FAIL " is an error, and "HANG" is one that does not come.
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

#include <unistd.h>

#include <distdl/slurm/queries/plugin_interface.hpp>

namespace {
std::string& folder() {
  static std::string path;
  return path;
}

int reply(distdl::slurm::Answer answer, const std::string& what, char** text) {
  *text = ::strdup(what.c_str());
  return static_cast<int>(answer);
}
}  // namespace

#define DISTDL_EXPORT extern "C" __attribute__((visibility("default")))

DISTDL_EXPORT void distdl_fake_folder(const char* path) {
  folder() = path;
}

DISTDL_EXPORT const char* distdl_slurm_release() {
  return "22.05";
}

DISTDL_EXPORT int distdl_slurm_answer(const char* kind, const char* name, char** text) {
  std::ifstream file(folder() + "/" + kind + "-" + name);
  if (!file) return reply(distdl::slurm::Answer::unknown, "no such thing", text);
  std::ostringstream all;
  all << file.rdbuf();
  if (all.str().starts_with("HANG")) ::usleep(1'500'000);
  if (all.str().starts_with("FAIL ")) return reply(distdl::slurm::Answer::failed, all.str().substr(5), text);
  return reply(distdl::slurm::Answer::found, all.str(), text);
}
