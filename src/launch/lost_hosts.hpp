// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <future>
#include <optional>
#include <string>
#include <vector>

#include <distdl/base/clock.hpp>

namespace distdl::launch {

/// Finds out, beside the calling thread, which nodes have no host that answers (slurm::unreachable_nodes).
class LostHosts {
 public:
  LostHosts(const std::vector<std::string>& nodes, Milliseconds limit);
  ~LostHosts() { leaves_ = true; }
  LostHosts(const LostHosts&) = delete;
  LostHosts& operator=(const LostHosts&) = delete;

  /// The nodes; nothing until they are known, and after the call that has returned them.
  std::optional<std::vector<std::string>> poll();

 private:
  std::atomic<bool> leaves_ = false;
  std::future<std::vector<std::string>> found_;  ///< invalid if there is no thread for it
};

}  // namespace distdl::launch
