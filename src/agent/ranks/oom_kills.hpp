// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace distdl::agent {

/// How many processes the kernel has killed for lack of memory so far.
struct OomKills {
  /// Kills in this process's cgroup, at its limit or at one above; nothing: no cgroup.
  std::optional<std::int64_t> of_cgroup;
  std::optional<std::int64_t> of_machine;  ///< all kills on the machine; nothing: /proc does not have them
};

/// Reads memory.events (cgroup v2) or memory.oom_control (v1) of this process's cgroup, and /proc/vmstat; `root` is "/"
/// but in tests.
OomKills count_oom_kills(const std::filesystem::path& root = "/");

/// Where one was killed between two counts, for people; null: nowhere. If the cgroup counts, what happened elsewhere on
/// the machine says nothing.
const char* place_of_oom_kill(const OomKills& before, const OomKills& after);

}  // namespace distdl::agent
