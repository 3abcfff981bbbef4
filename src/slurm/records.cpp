// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <string_view>

#include <distdl/slurm/records.hpp>

namespace distdl::slurm {
namespace {
template <std::size_t N>
bool is_one_of(const std::string& state, const std::array<std::string_view, N>& states) {
  return std::find(states.begin(), states.end(), state) != states.end();
}
}  // namespace

bool JobRecord::is_alive() const {
  return is_one_of<7>(state, {"RUNNING", "SUSPENDED", "CONFIGURING", "RESIZING", "SIGNALING", "STAGE_OUT", "STOPPED"});
}

bool JobRecord::is_inactive() const {
  return is_one_of<10>(state, {"PENDING", "COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "DEADLINE", "NODE_FAIL",
                               "PREEMPTED", "OUT_OF_MEMORY", "BOOT_FAIL"});
}

const char* name_of(PreemptMode mode) {
  switch (mode) {
    case PreemptMode::off:
      return "OFF";
    case PreemptMode::cancel:
      return "CANCEL";
    case PreemptMode::requeue:
      return "REQUEUE";
    case PreemptMode::suspend:
      return "SUSPEND";
    case PreemptMode::unknown:
      break;
  }
  return "unknown";
}

}  // namespace distdl::slurm
